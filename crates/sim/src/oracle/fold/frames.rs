//! Frames, as the oracle folds them: C2, C3, C4 and C8.
//!
//! Owns their bytes, where their rows may be by now, and which token or pieces they may get. Does not own what their rows were made of ([`super::seal`]).

use bytes::Bytes;
use protocol::record::{Frame, Frontier, Generation, Made, Run, Split};

use crate::broker::Broker;
use crate::objects::Objects;
use crate::oracle::{Broken, Oracle, Piece};
use crate::records::{Row, from_body, to_body};
use crate::server::{DEAD, Server, VIEW};
use crate::table::TIME;

impl Oracle {
    /// Whether a frame holds the column that a person may drop.
    pub(super) fn has_time(&self, frame: &Frame) -> bool {
        self.layouts.get(&(frame.table, frame.layout)).copied().unwrap_or(true)
    }

    /// C9: a start that finds frames with a column that is gone is refused, and has sealed nothing without it: once the person has given the
    /// column back, it would hold its DEFAULT there.
    pub(super) fn none_waits_with_time(&self, place: usize, server: &Server) -> Result<(), Broken> {
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
    pub(super) fn frame(
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

    pub(super) fn settle(&mut self, settled: &[Frontier], server: &Server) -> Result<(), Broken> {
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
    pub(super) fn is_there(&self, place: usize, ordinal: u64, server: &Server) -> Result<(), Broken> {
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

    pub(super) fn generation(&mut self, new: &Generation, server: &Server) -> Result<(), Broken> {
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

    pub(super) fn split(
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
}

pub(super) fn id(frame: &Frame) -> u128 {
    frame.id.as_slice().try_into().map_or(0, u128::from_le_bytes)
}
