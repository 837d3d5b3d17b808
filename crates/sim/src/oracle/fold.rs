//! The oracle's own fold over durable records.
//!
//! Owns what a record must agree with in the broker, the store and the table. Does not own the events that lead here.

use std::collections::BTreeMap;

use bytes::Bytes;
use operators::dedup::Late;
use protocol::Record;
use protocol::record::{
    Body, Checkpoint, Claim, Counts, Frame, Frontier, Generation, Genesis, InputCounts, Made, Rewind, Run,
    Seal, Split, TableGenesis,
};

use super::dedup::Sealed;
use super::{Broken, Fate, Oracle, Piece, joins, windows};
use crate::broker::{Broker, REPLAYS};
use crate::executor::WALL_BEGIN_MS;
use crate::objects::Objects;
use crate::plan::inputs;
use crate::records::{Record as Sent, Row, from_body, reason_code, to_body};
use crate::route::record_of;
use crate::server::{DEAD, Server, VIEW};
use crate::table::{NAMES, TIME};

impl Oracle {
    /// Applies a record that became durable.
    pub(super) fn apply(
        &mut self,
        record: &Record,
        now_us: u64,
        broker: &Broker,
        objects: &Objects,
        server: &Server,
    ) -> Result<(), Broken> {
        if record.seq != self.next_seq {
            return Err((
                "C5",
                format!("record {} became durable, the next is {}", record.seq, self.next_seq),
            ));
        }
        let body = record.body.as_ref().expect("a record that was read has a body");
        if !matches!(body, Body::Claim(_)) && (record.epoch != self.epoch || record.nonce != self.nonce) {
            return Err((
                "C5",
                format!("record {} is of epoch {}, the owner's is {}", record.seq, record.epoch, self.epoch),
            ));
        }
        self.next_seq += 1;
        match body {
            Body::Claim(claim) => self.claim(record, claim, now_us),
            Body::Genesis(genesis) => self.genesis(genesis, server),
            Body::Seal(seal) => {
                self.watermark(seal.watermark_ms, now_us)?;
                self.seal((record.seq, now_us), seal, broker, objects, server)
            }
            Body::Settle(settle) => {
                self.settle(&settle.settled, server)?;
                for above in &settle.above {
                    let place = self.places[above.table as usize];
                    above.ordinals.iter().try_for_each(|ordinal| self.is_there(place, *ordinal, server))?;
                }
                Ok(())
            }
            // Neither changes what is in the table; what follows is judged when it happens.
            Body::Question(_) => {
                self.asked_us = Some(now_us);
                Ok(())
            }
            Body::Answer(_) => {
                self.asked_us = None;
                Ok(())
            }
            Body::Forget(_) => Err(("order", "a stream was forgotten, though nobody asked for it".into())),
            Body::HandOver(_) => Err(("order", "a partition was handed over, and there is one lane".into())),
            Body::Change(_) => Err(("order", "the pipeline was changed, though nobody asked for it".into())),
            Body::Rewind(rewind) => self.moved(rewind, broker),
            Body::Rename(_) | Body::Arrival(_) => {
                Err(("order", "the pipeline was renamed, though nobody asked for it".into()))
            }
            Body::Generation(generation) => self.generation(generation, server),
            Body::Split(split) => self.split(split, (broker, objects), server),
            Body::Checkpoint(checkpoint) => self.checkpoint(record.seq, checkpoint, objects),
        }
    }

    fn claim(&mut self, record: &Record, claim: &Claim, now_us: u64) -> Result<(), Broken> {
        if record.epoch != self.epoch + 1 || self.nonces.contains(&record.nonce) {
            return Err((
                "C5",
                format!("a claim of epoch {} after {}, or a nonce used before", record.epoch, self.epoch),
            ));
        }
        self.epoch = record.epoch;
        self.nonce.clone_from(&record.nonce);
        self.nonces.push(record.nonce.clone());
        self.clocks.claimed();
        let pid = claim.owner.strip_prefix("process-").and_then(|pid| pid.parse().ok()).unwrap_or_default();
        self.owner = Some((pid, now_us));
        Ok(())
    }

    /// C6: no clock of a record frees state that the window still needs.
    fn watermark(&self, watermark_ms: i64, now_us: u64) -> Result<(), Broken> {
        let true_ms = WALL_BEGIN_MS + (now_us / 1_000) as i64;
        match self.watermark_ahead_ms_max {
            Some(ahead_ms_max) if watermark_ms.saturating_sub(true_ms) > ahead_ms_max => Err((
                "C6",
                format!("the watermark is {} ms ahead of the time", watermark_ms.saturating_sub(true_ms)),
            )),
            _ => Ok(()),
        }
    }

    fn genesis(&mut self, genesis: &Genesis, _server: &Server) -> Result<(), Broken> {
        for name in &genesis.inputs {
            let place = inputs::NAMES.iter().position(|known| known == name);
            self.inputs.push(place.ok_or(("C9", format!("`{name}` is no input")))?);
        }
        for p in &genesis.partitions {
            let number = number_of(&p.stream, p.index);
            if self.partitions.iter().any(|(known, _)| *known == number) {
                return Err(("C1", format!("partition {number} has two first positions")));
            }
            if p.next() != 0 {
                return Err((
                    "C1",
                    format!("partition {number} begins at {}, and not at its beginning", p.next()),
                ));
            }
            self.partitions.push((number, p.next()));
        }
        for TableGenesis { name, takes_dead_letters } in &genesis.tables {
            let place =
                NAMES.iter().position(|n| n == name).ok_or(("C3", format!("`{name}` is no table")))?;
            if *takes_dead_letters != (place == DEAD) {
                return Err(("C9", format!("`{name}` takes dead letters: {takes_dead_letters}")));
            }
            self.places.push(place);
        }
        Ok(())
    }

    /// A person moves the lane: only what is delivered lies behind it, and what is read again has no fate yet.
    fn moved(&mut self, rewind: &Rewind, broker: &Broker) -> Result<(), Broken> {
        let Some(asked) = self.plan.moved else {
            return Err(("order", "the pipeline was moved, though nobody asked for it".into()));
        };
        if !self.is_settled() {
            return Err(("C9", format!("the pipeline is moved, and {}", self.unsettled())));
        }
        for moved in &rewind.moves {
            let at = self.partitions.get_mut(moved.partition as usize);
            let (number, next) = at.ok_or(("C1", "no such partition".into()))?;
            if *next != moved.from() {
                return Err((
                    "C1",
                    format!("partition {number} is moved from {}, and stands at {next}", moved.from()),
                ));
            }
            *next = moved.next();
            self.read_again += moved.from().saturating_sub(moved.next()) as u64;
            let again = broker.streams[*number].records.iter();
            let again = again.filter(|r| (moved.next()..moved.from()).contains(&r.position.into()));
            for unit in again.flat_map(|record| self.plan.units_of(record)) {
                self.fates.remove(&unit.id);
            }
            if asked.is_emptied {
                self.clocks.begin_again(*number);
            }
        }
        if rewind.emptied.is_empty() == asked.is_emptied {
            return Err(("C6", format!("the state is given up: {:?}, asked for: {asked:?}", rewind.emptied)));
        }
        let held = self.windows.as_mut().map_or(0, windows::Model::begin_again)
            + self.joins.as_mut().map_or(0, joins::Model::begin_again);
        if rewind.discarded != held {
            return Err(("C9", format!("{} records are discarded, and {held} were held", rewind.discarded)));
        }
        if asked.is_emptied {
            self.model.begin_again();
            self.deltas.clear();
            self.snapshots.clear();
        }
        Ok(())
    }

    fn seal(
        &mut self,
        (seq, now_us): (u64, u64),
        seal: &Seal,
        broker: &Broker,
        objects: &Objects,
        server: &Server,
    ) -> Result<(), Broken> {
        let mut of_tables = Vec::new();
        let mut sealed = Sealed { watermark_ms: seal.watermark_ms, ..Sealed::default() };
        for range in &seal.ranges {
            let (number, next) = self
                .partitions
                .get_mut(range.partition as usize)
                .ok_or(("C1", "no such partition".into()))?;
            if range.from() != *next || range.next() < range.from() {
                return Err((
                    "C1",
                    format!(
                        "range {}..{} of partition {number}, which stands at {next}",
                        range.from(),
                        range.next()
                    ),
                ));
            }
            let (read, end) = broker.range(*number, range.from(), range.next(), range.leader_epoch);
            sealed.read_of[self.plan.input_of(*number)] += read.len() as u64;
            if range.next() > end.into() {
                return Err((
                    "C1",
                    format!("range up to {} of partition {number}, which ends at {end}", range.next()),
                ));
            }
            self.clocks.read(*number, read, range.time_ms_max, now_us)?;
            if seal.idle.contains(&range.partition) {
                self.clocks.left_out(*number, read, now_us)?;
            }
            sealed.read.extend_from_slice(read);
            sealed.sides.resize(sealed.read.len(), self.plan.input_of(*number));
            *next = range.next();
            self.epochs.insert(*number, range.leader_epoch);
        }
        let known: Vec<usize> = self.partitions.iter().map(|(number, _)| *number).collect();
        self.clocks.sealed(&known, &sealed.read, seal.watermark_ms)?;
        let is_made_again = seal.frames.iter().any(|frame| frame.made.is_some());
        if !seal.segment.is_empty() && !is_made_again && objects.durable(&seal.segment).is_none() {
            return Err(("C7", format!("segment `{}` is not there when it is sealed", seal.segment)));
        }
        for layout in &seal.layouts {
            let has_time = layout.columns.iter().any(|column| column.name == TIME);
            self.layouts.insert((layout.table, layout.number), has_time);
        }
        for frame in &seal.frames {
            let (place, mut rows) = self.frame(frame, &seal.segment, (broker, objects))?;
            if !self.has_time(frame) {
                self.none_waits_with_time(place, server)?;
                give_times(&mut rows, &sealed.read)?;
            }
            let table = &mut self.tables[place];
            if frame.ordinal != table.next_ordinal {
                return Err(("C4", format!("frame {} after {}", frame.ordinal, table.next_ordinal)));
            }
            table.next_ordinal += 1;
            table.frames.insert(frame.ordinal, vec![id(frame)]);
            table.sealed += frame.rows;
            for row in &rows {
                *self.expected.entry((place, row[0])).or_default() += 1;
            }
            if place == DEAD {
                sealed.dead.extend(rows)
            } else {
                of_tables.extend(rows.into_iter().map(|row| (place, row)))
            }
        }
        let units: Vec<Sent> = sealed.read.iter().flat_map(|record| self.plan.units_of(record)).collect();
        if self.windows.is_none() && self.joins.is_none() {
            sealed.written = self.units_of(&of_tables, &units)?;
        }
        for refusal in &seal.refusals {
            let place = self.places[refusal.table as usize];
            let ids = self.tables[place].frames.get(&refusal.ordinal);
            let piece =
                ids.and_then(|ids| ids.get(refusal.piece as usize)).and_then(|id| self.pieces.get_mut(id));
            let piece = piece.ok_or(("C9", "a refusal of no frame".to_owned()))?;
            if piece.is_dead || piece.ids.len() != 1 {
                return Err((
                    "C9",
                    format!("a piece of {} rows is refused, dead: {}", piece.ids.len(), piece.is_dead),
                ));
            }
            piece.is_dead = true;
            let row_id = piece.ids[0];
            self.tables[place].refused += 1;
            *self.expected.entry((place, row_id)).or_default() -= 1;
            sealed.refused.push(self.plan.unit_of(row_id));
        }
        self.count_inputs(seal, &sealed)?;
        let fates = match (&mut self.windows, &mut self.joins) {
            (Some(windows), _) => windows.seal(seal, &sealed, &of_tables)?,
            (None, Some(joins)) => joins.seal(seal, &sealed, &of_tables)?,
            (None, None) => {
                match self.plan.unnests {
                    true => self.count_items(seal, &sealed, &of_tables)?,
                    false => self.count(seal, &sealed, &of_tables)?,
                }
                self.count_tables(seal, &sealed, &of_tables)?;
                sealed.read = units;
                self.model.seal(&sealed)?
            }
        };
        for (id, fate) in fates {
            let before = self.fates.insert(id, fate);
            // Several tables may refuse rows of one record.
            let is_refusal = matches!(before, Some(Fate::Written | Fate::Dead))
                && sealed.refused.contains(&id)
                && fate == Fate::Dead;
            if before.is_some() && !is_refusal {
                return Err(("C9", format!("record {id} is {fate:?}, and was {before:?}")));
            }
        }
        self.deltas.extend(seal.states.iter().map(|_| (seq, seal.segment.clone())));
        self.settle(&seal.settled, server)
    }

    /// The records, or items of them, that the rows of a seal were made of: each with all of its rows, in the tables that they are for.
    fn units_of(&self, rows: &[(usize, Row)], read: &[Sent]) -> Result<Vec<Row>, Broken> {
        let mut by_record: BTreeMap<u64, Vec<(usize, Row)>> = BTreeMap::new();
        for (place, row) in rows {
            by_record.entry(self.plan.unit_of(row[0])).or_default().push((*place, *row));
        }
        let mut records = Vec::new();
        for (id, mut found) in by_record {
            let [_, key, time] = found[0].1;
            let row = [id, key, time];
            if read.iter().any(|record| record.id == id) {
                let mut expected = self.plan.rows_of(row);
                expected.sort_unstable();
                found.sort_unstable();
                if found != expected {
                    return Err((
                        "C9",
                        format!("record {id} became {found:?}, and should become {expected:?}"),
                    ));
                }
            }
            records.push(row);
        }
        Ok(records)
    }

    /// C9: what is counted for an input was read from its partitions.
    fn count_inputs(&self, seal: &Seal, sealed: &Sealed) -> Result<(), Broken> {
        let mut found = [0; 2];
        for InputCounts { input, read, .. } in &seal.counts {
            let place =
                self.inputs.get(*input as usize).ok_or(("C9", format!("there is no input {input}")))?;
            found[*place] += *read;
        }
        if found != sealed.read_of {
            let what = format!(
                "the inputs are said to have read {found:?} records, and have read {:?}",
                sealed.read_of
            );
            return Err(("C9", what));
        }
        Ok(())
    }

    /// C9: both ledgers are those of the records and of the rows.
    fn count(&self, seal: &Seal, sealed: &Sealed, of_tables: &[(usize, Row)]) -> Result<(), Broken> {
        let derived = seal.derived.unwrap_or_default();
        let counts = counts_of(seal);
        let refused = sealed.dead.iter().filter(|row| row[1] == reason_code("refused")).count();
        let expected = (sealed.read.len(), sealed.dead.len() - refused);
        let found = (counts.read as usize, counts.dead_letters as usize);
        let sum = counts.passed + counts.filtered + counts.duplicates + counts.late + counts.dead_letters;
        if expected != found || sum != counts.read {
            return Err((
                "C9",
                format!("read and dead are {found:?}, and should be {expected:?}; all are {counts:?}"),
            ));
        }
        // A record whose rows no table gets passes where a step has made several rows of another one.
        let nowhere = sealed.read.iter().filter(|r| r.is_good && self.plan.is_dropped(r.key)).count();
        if counts.filtered > nowhere as u64 || counts.late > 0 && self.plan.late != Late::Drop {
            let what = format!("{counts:?}, though no rule drops more than {nowhere}");
            return Err(("C9", format!("{what} and late ones are {:?}", self.plan.late)));
        }
        let passed = sealed.written.len()..=sealed.written.len() + nowhere;
        let rows = of_tables.len() as u64 + derived.dropped + derived.dead_letters;
        if !passed.contains(&(counts.passed as usize)) || counts.passed + derived.rows != rows {
            let what = format!("{} passed, {derived:?}, {} rows are sealed", counts.passed, of_tables.len());
            return Err((
                "C9",
                format!("{what}, and {} to {} should have passed", passed.start(), passed.end()),
            ));
        }
        Ok(())
    }

    /// C9: each table gets as many rows as its frames hold.
    fn count_tables(&self, seal: &Seal, sealed: &Sealed, of_tables: &[(usize, Row)]) -> Result<(), Broken> {
        for said in &seal.rows {
            let place = self.places[said.table as usize];
            let found = match place {
                DEAD => sealed.dead.len(),
                place => of_tables.iter().filter(|(of, _)| *of == place).count(),
            };
            if said.rows != found as u64 {
                return Err(("C9", format!("table {place} gets {} rows, and holds {found}", said.rows)));
            }
        }
        Ok(())
    }

    /// Whether a frame holds the column that a person may drop.
    fn has_time(&self, frame: &Frame) -> bool {
        self.layouts.get(&(frame.table, frame.layout)).copied().unwrap_or(true)
    }

    /// C9: a start that finds frames with a column that is gone is refused, and has sealed nothing without it: once the person has given the
    /// column back, it would hold its DEFAULT there.
    fn none_waits_with_time(&self, place: usize, server: &Server) -> Result<(), Broken> {
        let table = &self.tables[place];
        let ids = table.frames.range(table.frontier..).flat_map(|(_, ids)| ids);
        let mut pieces = ids.map(|id| (id, &self.pieces[id]));
        let waits = |(id, piece): &(&u128, &Piece)| {
            piece.has_time && !piece.is_dead && server.committed(place, **id) == 0
        };
        match pieces.find(waits) {
            Some((id, _)) => Err((
                "C9",
                format!("a frame without `{TIME}` is sealed while frame {id:032x}, which holds it, waits"),
            )),
            None => Ok(()),
        }
    }

    /// A frame as it stands in its segment.
    fn frame(
        &mut self,
        frame: &Frame,
        segment: &str,
        (broker, objects): (&Broker, &Objects),
    ) -> Result<(usize, Vec<Row>), Broken> {
        let id = id(frame);
        let place = *self.places.get(frame.table as usize).ok_or(("C3", "a frame of no table".to_owned()))?;
        let body = match &frame.made {
            Some(made) => self.made_again(frame, made, broker)?,
            None => {
                let bytes = objects.durable(segment);
                let bytes = bytes.ok_or(("C2", format!("`{segment}` is sealed and not durable")))?;
                let range = frame.offset as usize..(frame.offset + frame.len) as usize;
                bytes
                    .get(range.clone())
                    .map(|_| bytes.slice(range))
                    .ok_or(("C3", "a frame outside of its segment".to_owned()))?
            }
        };
        let (named, rows) = from_body(&body).ok_or(("C3", "a frame that is none".to_owned()))?;
        if named != id || rows.len() as u64 != frame.rows {
            return Err(("C3", format!("frame {id:032x} holds {} rows of {named:032x}", rows.len())));
        }
        let partition = |row: &Row| row[1] % self.plan.table_partitions;
        if place != DEAD && rows.iter().any(|row| partition(row) != partition(&rows[0])) {
            return Err(("C3", format!("frame {id:032x} touches several table partitions")));
        }
        let ids = rows.iter().map(|row| row[0]).collect();
        let segment = segment.to_owned();
        let has_time = self.has_time(frame);
        let ordinal = frame.ordinal;
        let piece = Piece { place, ordinal, generation: 0, body, ids, segment, is_dead: false, has_time };
        if self.pieces.insert(id, piece).is_some() {
            return Err(("C3", format!("two frames are called {id:032x}")));
        }
        Ok((place, rows))
    }

    /// The body of a frame whose segment need not be written, of the records that it names.
    fn made_again(&self, frame: &Frame, made: &Made, broker: &Broker) -> Result<Bytes, Broken> {
        let mut rows = Vec::new();
        for Run { partition, from, next } in &made.runs {
            let known = self.partitions.get(*partition as usize);
            let (number, _) = known.ok_or(("C2", "made of a partition without a genesis".to_owned()))?;
            let epoch = self.epochs.get(number).copied().unwrap_or_default();
            let (read, _) = broker.range(*number, (*from).into(), (*next).into(), epoch);
            rows.extend(read.iter().filter(|r| r.is_good).map(|r| [r.id, r.key, r.time_ms as u64]));
        }
        let body = Bytes::from(to_body(id(frame), &rows));
        match (body.len() as u64, crc32c::crc32c(&body)) == (frame.len, frame.crc32c) {
            true => Ok(body),
            false => Err(("C2", format!("frame {} is not made of the records that it names", frame.ordinal))),
        }
    }

    fn settle(&mut self, settled: &[Frontier], server: &Server) -> Result<(), Broken> {
        for f in settled {
            let place = self.places[f.table as usize];
            let table = &self.tables[place];
            if f.frontier < table.frontier || f.frontier > table.next_ordinal {
                return Err((
                    "C4",
                    format!("the frontier of table {place} moves from {} to {}", table.frontier, f.frontier),
                ));
            }
            (table.frontier..f.frontier).try_for_each(|ordinal| self.is_there(place, ordinal, server))?;
            let table = &mut self.tables[place];
            // What is said to be unsent must not be sent, as what lies beyond the window.
            let unsent_from = f.sent_below.map_or(u64::MAX, |end| end.saturating_sub(f.frontier));
            (table.frontier, table.window) = (f.frontier, f.window.min(unsent_from));
        }
        Ok(())
    }

    /// C4: the rows of a frame's live pieces are in the table, those of its dead pieces are not.
    fn is_there(&self, place: usize, ordinal: u64, server: &Server) -> Result<(), Broken> {
        for id in self.tables[place].frames.get(&ordinal).into_iter().flatten() {
            let (times, is_dead) = (server.committed(place, *id), self.pieces[id].is_dead);
            let is_right = if is_dead { times == 0 } else { server.is_there(place, *id) };
            if !is_right {
                let what = format!(
                    "frame {ordinal} of table {place} ({id:032x}) is settled, and {times} times in the table (dead: {is_dead})"
                );
                return Err(("C4", what));
            }
            let of_view = server.committed(VIEW, *id);
            if server.feeds_view(place) && of_view != usize::from(!is_dead) {
                let what = format!(
                    "frame {ordinal} ({id:032x}) is settled, and {of_view} times in what the view feeds (dead: {is_dead})"
                );
                return Err(("C4", what));
            }
        }
        Ok(())
    }

    fn live(&mut self, table: u32, ordinal: u64, piece: u32) -> Result<(u128, &mut Piece), Broken> {
        let place = self.places[table as usize];
        let id = self.tables[place].frames.get(&ordinal).and_then(|ids| ids.get(piece as usize)).copied();
        let id = id.ok_or(("C3", format!("frame {ordinal} piece {piece} is not there")))?;
        let piece = self.pieces.get_mut(&id).filter(|p| !p.is_dead);
        Ok((id, piece.ok_or(("C3", format!("frame {id:032x} is dead")))?))
    }

    fn generation(&mut self, new: &Generation, server: &Server) -> Result<(), Broken> {
        let (id, piece) = self.live(new.table, new.ordinal, new.piece)?;
        if new.generation != piece.generation + 1 {
            return Err(("C3", format!("generation {} after {}", new.generation, piece.generation)));
        }
        piece.generation = new.generation;
        if server.committed(piece.place, id) > 0 {
            return Err(("C8", format!("frame {id:032x} gets a new token, and its rows are in the table")));
        }
        let prefix = protocol::names::query_prefix(id);
        let ended_us = *self
            .ended
            .get(&prefix)
            .ok_or(("C8", format!("frame {id:032x} gets a new token, and no attempt was ended")))?;
        match server.runs_since_before(&prefix, ended_us) {
            Some(query) => Err(("C8", format!("frame {id:032x} gets a new token while `{query}` runs"))),
            None => Ok(()),
        }
    }

    fn split(
        &mut self,
        split: &Split,
        (broker, objects): (&Broker, &Objects),
        server: &Server,
    ) -> Result<(), Broken> {
        let (id, piece) = self.live(split.table, split.ordinal, split.piece)?;
        piece.is_dead = true;
        let (place, mut ids) = (piece.place, piece.ids.clone());
        if server.committed(place, id) > 0 {
            return Err(("C8", format!("frame {id:032x} is split, and its rows are in the table")));
        }
        let mut halves = Vec::new();
        for frame in &split.pieces {
            let (_, rows) = self.frame(frame, &split.segment, (broker, objects))?;
            halves.extend(rows.iter().map(|row| row[0]));
            let name = self::id(frame);
            let pieces = self.tables[place].frames.get_mut(&split.ordinal);
            pieces.expect("its first piece was just found").push(name);
        }
        ids.sort_unstable();
        halves.sort_unstable();
        if ids == halves {
            Ok(())
        } else {
            Err(("C9", format!("the halves of frame {id:032x} hold other rows")))
        }
    }

    fn checkpoint(&mut self, seq: u64, checkpoint: &Checkpoint, objects: &Objects) -> Result<(), Broken> {
        let image = checkpoint.lane.clone().unwrap_or_default();
        let positions: Vec<_> =
            image.partitions.iter().map(|p| (number_of(&p.stream, p.index), p.next())).collect();
        if positions != self.partitions {
            return Err((
                "C6",
                format!("a checkpoint at {positions:?}, the lane stands at {:?}", self.partitions),
            ));
        }
        for (index, table) in image.tables.iter().enumerate() {
            let fold = &self.tables[self.places[index]];
            let pending: Vec<u128> = table.pending.iter().filter_map(|p| p.frame.as_ref()).map(id).collect();
            let expected: Vec<u128> =
                fold.frames.range(fold.frontier..).flat_map(|(_, ids)| ids.clone()).collect();
            let rows = table.rows.unwrap_or_default();
            if (rows.sealed, rows.refused) != (fold.sealed, fold.refused)
                || rows.settled > rows.sealed - rows.refused
            {
                let what = format!("the checkpoint's table `{}` has {rows:?}", table.name);
                return Err((
                    "C9",
                    format!("{what}, and {} were sealed, {} refused", fold.sealed, fold.refused),
                ));
            }
            if (table.frontier, table.next_ordinal) != (fold.frontier, fold.next_ordinal)
                || pending != expected
            {
                return Err((
                    "C7",
                    format!("the checkpoint's table `{}` lacks unsettled frames", table.name),
                ));
            }
        }
        self.deltas.retain(|(of, _)| *of > checkpoint.state_seq);
        let deltas: Vec<_> = image.deltas.iter().map(|d| (d.seq, d.segment.clone())).collect();
        if deltas != self.deltas {
            return Err((
                "C6",
                format!("the checkpoint's deltas are {deltas:?}, and should be {:?}", self.deltas),
            ));
        }
        self.snapshots = checkpoint.states.iter().map(|s| s.object.clone()).collect();
        if let Some(object) = self.snapshots.iter().find(|object| objects.durable(object).is_none()) {
            return Err(("C7", format!("snapshot `{object}` is not durable when it is recorded")));
        }
        self.checkpoints.push(seq);
        Ok(())
    }
}

/// Gives rows that were sealed without their time the time of their records.
fn give_times(rows: &mut [Row], read: &[Sent]) -> Result<(), Broken> {
    for row in rows {
        let record = read.iter().find(|record| record.id == record_of(row[0]));
        let record = record.ok_or(("C1", format!("row {} is of no record of its seal", row[0])))?;
        if row[2] != 0 {
            return Err(("C3", format!("row {} lacks `{TIME}`, and holds {}", row[0], row[2])));
        }
        row[2] = record.time_ms as u64;
    }
    Ok(())
}

/// The oracle's number of a partition.
fn number_of(stream: &str, index: u32) -> usize {
    if stream == replays::STREAM { REPLAYS } else { index as usize }
}

fn id(frame: &Frame) -> u128 {
    frame.id.as_slice().try_into().map_or(0, u128::from_le_bytes)
}

/// What the records of all inputs became in a seal.
pub fn counts_of(seal: &Seal) -> Counts {
    let mut counts = Counts::default();
    seal.counts.iter().for_each(|input| counts.add(&input.counts()));
    counts
}
