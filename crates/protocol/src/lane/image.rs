//! The whole state of a lane as a checkpoint holds it.
//!
//! Owns that what is read back is what was written. Does not own when one is taken (`crate::retire`).

use std::collections::VecDeque;
use std::sync::Arc;

use super::{InputState, Lane, PartitionState, Piece, TIME_UNKNOWN_MS, TableState, layouts, passes};
use crate::doubt::Verdict;
use crate::record::{
    Before, Checkpoint, Counts, InputImage, LaneImage, Layout, PartitionGenesis, PieceImage, TableImage,
};

impl Lane {
    pub(super) fn checkpoint(&mut self, seq: u64, checkpoint: &Checkpoint) {
        self.snapshots.clone_from(&checkpoint.states);
        self.files.clone_from(&checkpoint.files);
        self.state_seq = checkpoint.state_seq;
        self.deltas.retain(|d| d.seq > checkpoint.state_seq);
        self.newest_checkpoint = Some(seq);
    }

    /// The lane as a message, for a checkpoint whose snapshots hold the state up to seal `state_seq`.
    pub fn image(&self, state_seq: u64) -> LaneImage {
        LaneImage {
            pipeline: self.pipeline.clone(),
            partitions: self.partitions.iter().map(partition_image).collect(),
            times_ms_max: self.partitions.iter().map(|p| p.time_ms_max).collect(),
            tables: self.tables.iter().map(table_image).collect(),
            steps: self.steps.clone(),
            watermark_ms: self.watermark_ms,
            idle: self.idle.clone(),
            inputs: self.inputs.iter().map(input_image).collect(),
            derived: Some(self.derived),
            absorbed: Some(self.absorbed),
            deltas: self.deltas.iter().filter(|d| d.seq > state_seq).cloned().collect(),
            snapshot_bytes: self.snapshots.iter().map(|s| s.len).fold(0, u64::saturating_add),
            fates: self.fates.clone(),
            forgotten: self.forgotten_image(),
            former_names: self.former_names.clone(),
            parts: self.parts.clone(),
            rewound: self.rewound_image(),
            before: Some(self.before).filter(|before| *before != Before::default()),
            passes: self.passes_image(),
            newest_ms: self.newest_ms,
            handed_over: self.handed_over.clone(),
            next_version: self.next_version,
        }
    }

    pub(super) fn from_image(image: &LaneImage) -> Self {
        let inputs: Vec<InputState> = image.inputs.iter().map(input_state).collect();
        let mut counts = Counts::default();
        inputs.iter().for_each(|input| counts.add(&input.counts));
        let times = image.times_ms_max.iter().copied().chain(std::iter::repeat(TIME_UNKNOWN_MS));
        Self {
            pipeline: image.pipeline.clone(),
            inputs,
            partitions: image.partitions.iter().zip(times).map(|(p, t)| partition_state(p, t)).collect(),
            tables: image.tables.iter().map(table_from_image).collect(),
            steps: image.steps.clone(),
            watermark_ms: image.watermark_ms,
            idle: image.idle.clone(),
            counts,
            derived: image.derived.unwrap_or_default(),
            absorbed: image.absorbed.unwrap_or_default(),
            deltas: image.deltas.clone(),
            fates: image.fates.clone(),
            forgotten: image.forgotten.iter().map(|gone| (gone.partition, *gone)).collect(),
            former_names: image.former_names.clone(),
            parts: image.parts.clone(),
            handed_over: image.handed_over.clone(),
            next_version: image.next_version,
            passes: passes::from_image(&image.passes),
            newest_ms: image.newest_ms,
            before: image.before.unwrap_or_default(),
            rewound: image.rewound.iter().map(|r| (r.partition, r.read_to())).collect(),
            ..Self::new()
        }
    }
}

fn input_image(input: &InputState) -> InputImage {
    InputImage {
        name: input.name.clone(),
        was_opened: input.was_opened,
        counts: Some(input.counts).filter(|counts| *counts != Counts::default()),
    }
}

fn input_state(image: &InputImage) -> InputState {
    let counts = image.counts.unwrap_or_default();
    InputState { name: image.name.clone(), was_opened: image.was_opened, counts }
}

pub(super) fn partition_state(p: &PartitionGenesis, time_ms_max: i64) -> PartitionState {
    PartitionState {
        input: p.input,
        stream: p.stream.clone(),
        index: p.index,
        identity: p.identity.clone(),
        next: p.next(),
        leader_epoch: p.leader_epoch,
        time_ms_max,
        taken_over: p.taken_over,
    }
}

fn partition_image(p: &PartitionState) -> PartitionGenesis {
    PartitionGenesis {
        input: p.input,
        stream: p.stream.clone(),
        index: p.index,
        identity: p.identity.clone(),
        leader_epoch: p.leader_epoch,
        taken_over: p.taken_over,
        ..PartitionGenesis::default()
    }
    .at(p.next)
}

fn table_image(table: &TableState) -> TableImage {
    let piece_image = |p: &Piece| PieceImage {
        frame: Some(p.frame.clone()),
        piece: p.piece,
        generation: p.generation,
        segment: p.segment.clone(),
        server: p.server.clone(),
        dead: p.dead,
        sealed_at_ms: p.sealed_at_ms,
        question: p.question.clone(),
        verdict: p.verdict.map_or(0, Verdict::number),
        settled: p.settled,
        first_row: p.first_row,
    };
    TableImage {
        name: table.name.clone(),
        frontier: table.frontier,
        window: table.window,
        sent_below: table.sent_below,
        next_ordinal: table.next_ordinal,
        server: table.server.clone(),
        pending: table.pending.iter().flatten().map(piece_image).collect(),
        accepted_uuid: table.accepted_uuid.clone(),
        layouts: table.layouts.iter().map(|layout| Layout::clone(layout)).collect(),
        newest_layout: table.newest_layout,
        takes_dead_letters: table.takes_dead_letters,
        rows: Some(table.rows),
    }
}

fn table_from_image(image: &TableImage) -> TableState {
    let layouts: Vec<Arc<Layout>> = image.layouts.iter().cloned().map(Arc::new).collect();
    let mut pending: VecDeque<Vec<Piece>> = VecDeque::new();
    for p in &image.pending {
        let piece = Piece {
            frame: p.frame.clone().unwrap_or_default(),
            piece: p.piece,
            generation: p.generation,
            segment: p.segment.clone(),
            server: p.server.clone(),
            dead: p.dead,
            sealed_at_ms: p.sealed_at_ms,
            question: p.question.clone(),
            verdict: Verdict::from_number(p.verdict),
            settled: p.settled,
            first_row: p.first_row,
            layout: p.frame.as_ref().and_then(|frame| layouts::find(&layouts, frame.layout)),
        };
        match pending.back_mut() {
            Some(pieces) if pieces[0].frame.ordinal == piece.frame.ordinal => pieces.push(piece),
            _ => pending.push_back(vec![piece]),
        }
    }
    TableState {
        name: image.name.clone(),
        takes_dead_letters: image.takes_dead_letters,
        rows: image.rows.unwrap_or_default(),
        frontier: image.frontier,
        window: image.window,
        sent_below: image.sent_below,
        next_ordinal: image.next_ordinal,
        server: image.server.clone(),
        pending,
        accepted_uuid: image.accepted_uuid.clone(),
        layouts,
        newest_layout: image.newest_layout,
    }
}
