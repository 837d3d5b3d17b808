//! The table of the small world, as the engine sees it.

use super::*;

#[async_trait]
impl Table for TokenTable {
    fn name(&self) -> &str {
        self.name
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn layout(&self) -> Layout {
        self.opened.clone()
    }

    fn changed(&self) -> Option<Layout> {
        let now = self.world.lock().expect("no panic").layout();
        let names = |layout: &Layout| -> Vec<(String, String)> {
            layout.columns.iter().map(|c| (c.name.clone(), c.type_name.clone())).collect()
        };
        (names(&self.opened) != names(&now)).then_some(now)
    }

    fn version_column(&self) -> Option<&Column> {
        self.replacing.as_ref().map(|(_, column)| column)
    }

    fn has_no_zero(&self, column: &str) -> bool {
        self.version_column().is_some_and(|made| made.name == column)
    }

    fn replaced(&self, rows: &[Selected]) -> Result<Vec<u32>, TableError> {
        let Some((keys, _)) = &self.replacing else { return Ok(Vec::new()) };
        let mut newest = BTreeMap::new();
        let numbers = (0..).zip(self.ids_of(rows));
        let mut replaced: Vec<u32> =
            numbers.filter_map(|(number, id)| newest.insert(id % keys, number)).collect();
        replaced.sort_unstable();
        Ok(replaced)
    }

    fn must_reopen(&self) -> bool {
        self.world.lock().expect("no panic").views > self.opened_views
    }

    fn must_reopen_at_once(&self) -> bool {
        self.must_reopen() && self.world.lock().expect("no panic").is_exchanged
    }

    fn fit(&self, layout: &Layout) -> Fit {
        let mut world = self.world.lock().expect("no panic");
        if let Some(columns) = world.columns_at_fit.take() {
            world.columns = columns;
        }
        let now = world.layout();
        drop(world);
        let mut fit = Fit::AsIs;
        for column in &layout.columns {
            let Some(now) = now.column(&column.name) else {
                return Fit::No { words: format!("column `{}` is gone; ADD COLUMN it", column.name) };
            };
            match (column.type_name.as_str(), now.type_name.as_str()) {
                (from, to) if from == to => {}
                ("UInt32", "UInt64") => fit = Fit::Again { always: true },
                (from, to) => return Fit::No { words: format!("values of {from} in {to}") },
            }
        }
        fit
    }

    fn encode(
        &self,
        rows: &[Selected],
        ids: &mut dyn FnMut() -> FrameId,
    ) -> Result<Vec<Encoded>, TableError> {
        let numbers = self.ids_of(rows);
        let versions = self.versions_of(rows);
        let said = rows.iter().filter_map(|rows| rows.batch().column_by_name("message"));
        let said = said.filter_map(|column| column.as_any().downcast_ref::<StringArray>());
        let said = said.flat_map(|column| column.iter().flatten().map(str::to_owned));
        self.world.lock().expect("no panic").messages.extend(said);
        let weight_max = self.world.lock().expect("no panic").frame_weight_max;
        let mean = numbers.iter().sum::<u64>() / numbers.len().max(1) as u64;
        let cut = if weight_max == 0 { numbers.len() } else { (weight_max / mean.max(1)).max(1) as usize };
        let mut first = 0;
        let frames = numbers.chunks(cut.max(1)).map(|rows| {
            let next = first + rows.len() as u32;
            frame(ids(), rows, std::mem::replace(&mut first, next)..next)
        });
        let frames: Vec<Encoded> = frames.collect();
        let mut world = self.world.lock().expect("no panic");
        for frame in frames.iter().filter(|_| !versions.is_empty()) {
            let rows = (0..frame.rows_from.len()).map(|at| frame.rows_from.get(at) as usize);
            world.versions.extend(rows.map(|row| ((frame.id, numbers[row]), versions[row])));
        }
        drop(world);
        Ok(frames)
    }

    fn encode_again(
        &self,
        rows: &RecordBatch,
        made_for: Option<&Layout>,
        id: FrameId,
    ) -> Result<(Encoded, Layout), TableError> {
        let numbers = self.ids_of(&[Selected::all(rows.clone())]);
        let mut now = self.world.lock().expect("no panic").layout();
        now.columns.retain(|column| made_for.is_none_or(|made| made.column(&column.name).is_some()));
        Ok((frame(id, &numbers, 0..numbers.len() as u32), now))
    }

    fn refused_row(&self, error: &InsertError) -> Option<u64> {
        u64::try_from(error.code).ok()?.checked_sub(1)
    }

    fn decode(&self, body: &[u8]) -> Result<RecordBatch, TableError> {
        let numbers = numbers(body);
        let schema = self.schema.arrow().clone();
        Ok(RecordBatch::try_new(schema, vec![Arc::new(UInt64Array::from(numbers))]).expect("one column"))
    }

    fn to_json(&self, _schema: Option<&Schema>, rows: &RecordBatch, row: usize) -> String {
        let ids = rows.column(0).as_any().downcast_ref::<UInt64Array>().expect("numbers");
        format!("{{\"id\":{}}}", ids.value(row))
    }

    async fn insert(&self, attempt: Attempt<'_>) -> Result<(), InsertError> {
        let insert_time = {
            let mut world = self.world.lock().expect("no panic");
            world.begun += 1;
            world.insert_time
        };
        self.runtime.sleep(Duration::from_millis(2) + insert_time).await;
        {
            let mut world = self.world.lock().expect("no panic");
            let others = world.others_on_the_way.pop_front().unwrap_or_default();
            world.others_insert(others);
            if world.restarts_on_the_way.pop_front().unwrap_or_default() {
                world.restart();
            }
        }
        if !attempt.gate.may_complete().await {
            self.world.lock().expect("no panic").held_back += 1;
            return Err(error(Effect::None, Remedy::Stop, TableFault::Fenced));
        }
        let mut world = self.world.lock().expect("no panic");
        world.attempts += 1;
        if world.away {
            return Err(error(Effect::None, Remedy::Resend, TableFault::Connection));
        }
        let known =
            world.bodies.entry(attempt.token.to_owned()).or_insert_with(|| attempt.body.clone()).clone();
        assert_eq!(sorted(numbers(&known)), sorted(numbers(&attempt.body)), "C3: one token, the same rows");
        for column in &attempt.layout.unwrap_or(&self.opened).columns {
            match world.columns.iter().find(|(name, _)| *name == column.name) {
                Some((_, type_name)) if *type_name == column.type_name => {}
                Some(_) => return Err(error(Effect::None, Remedy::Divert, TableFault::BadContent)),
                None => return Err(error(Effect::None, Remedy::Stop, TableFault::Differs)),
            }
        }
        let rows = numbers(&attempt.body);
        if world.poison_after.as_ref().is_some_and(|(after, _)| world.attempts > *after) {
            world.poison = world.poison_after.take().expect("just looked at").1;
        }
        if let Some(at) = rows.iter().position(|n| world.poison.contains(n)) {
            world.refused += 1;
            world.changed |= world.mended_at_look > 0;
            let code = if world.names_no_row { 0 } else { at as i32 + 1 };
            return Err(InsertError { code, ..error(Effect::None, Remedy::Divert, TableFault::BadContent) });
        }
        if let Some((kind, remedy, effect, false)) = world.says {
            return Err(error(effect, remedy, kind));
        }
        let fault = world.faults.pop_front();
        match fault {
            Some(Fault::Refused) => {
                return Err(error(Effect::None, Remedy::Resend, TableFault::TooManyParts));
            }
            Some(Fault::LostBefore) => {
                return Err(error(Effect::Unknown, Remedy::Resend, TableFault::Broken));
            }
            Some(Fault::LostAfter | Fault::TokenWithoutRows) | None => {}
        }
        if !world.tokens.iter().any(|t| t == attempt.token) {
            world.tokens.push_back(attempt.token.to_owned());
            world.block += 1;
            if world.tokens.len() > 100 {
                world.tokens.pop_front();
            }
            if fault != Some(Fault::TokenWithoutRows) {
                let id = u128::from_str_radix(&attempt.token[8..40], 16).expect("a frame's name");
                world.rows.push((FrameId(id), rows));
            }
        }
        if let Some((kind, remedy, effect, true)) = world.says {
            return Err(error(effect, remedy, kind));
        }
        match fault {
            None => Ok(()),
            Some(Fault::TokenWithoutRows) => {
                world.restart();
                Err(error(Effect::Unknown, Remedy::Resend, TableFault::Broken))
            }
            Some(_) => {
                if std::mem::take(&mut world.dies_after_fault) {
                    world.restart();
                }
                Err(error(Effect::Unknown, Remedy::Resend, TableFault::Broken))
            }
        }
    }

    fn tokens(&self) -> &dyn Tokens {
        &ClickHouseTokens
    }

    async fn see(&self) -> Result<Sighting, TableError> {
        let mut world = self.world.lock().expect("no panic");
        world.looks += 1;
        if world.changed && world.mended_at_look > 0 {
            world.mended_at_look -= 1;
            if world.mended_at_look == 0 {
                world.changed = false;
                world.poison.clear();
            }
        }
        if world.away && world.facts_away {
            return Err(TableError {
                remedy: Remedy::Resend,
                kind: TableFault::Connection,
                message: "away".into(),
            });
        }
        if world.changed {
            let message = "column `id` has changed".into();
            return Err(TableError { remedy: Remedy::Stop, kind: TableFault::Differs, message });
        }
        let facts = Facts {
            start_ms: world.start_ms,
            seen_ms: world.now_ms,
            server_uuid: "s".into(),
            block_number: world.block,
            view_blocks: vec![world.block; world.views],
            token_window: 100,
            tokens_per_frame: 1,
            token_age_ms_max: None,
            tokens_per_block_max: Some(1),
            asked_ms: world.now_ms,
            answered_ms: world.now_ms,
            ..Facts::default()
        };
        Ok(facts.seen(format!("{}-{}", self.name, world.exchanged)))
    }

    async fn probe(&self, frame: FrameId, _: u64, _: &[u8]) -> Result<Presence, TableError> {
        let mut world = self.world.lock().expect("no panic");
        world.probes += 1;
        if world.cannot_tell {
            return Ok(Presence::Inadmissible);
        }
        let found = world.rows.iter().any(|(id, _)| *id == frame);
        Ok(if found { Presence::All } else { Presence::None })
    }

    async fn look_for(
        &self,
        frame: FrameId,
        rows: u64,
        probe: &[u8],
    ) -> Result<(Presence, Sighting), TableError> {
        let (presence, mut seen) = (self.probe(frame, rows, probe).await?, self.see().await?);
        if self.world.lock().expect("no panic").rows_elsewhere {
            seen.table_uuid = "elsewhere".into();
            return Ok((Presence::None, seen));
        }
        Ok((presence, seen))
    }

    fn may_object_to_first_start(&self) -> bool {
        self.world.lock().expect("no panic").asks_if_filled
    }

    async fn objects_to_first_start(&self) -> Result<Option<String>, TableError> {
        let world = self.world.lock().expect("no panic");
        Ok((world.asks_if_filled && !world.ids().is_empty()).then(|| "the table has rows".into()))
    }

    async fn end_attempts(&self, _: &str) -> Result<u64, TableError> {
        Ok(0)
    }
}
