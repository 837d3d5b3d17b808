//! What becomes of one frame on its way: a new token, a question to the operator and its answer, smaller pieces.
//!
//! Owns what such a record changes in the piece. Does not own the decisions that lead to it ([`crate::doubt`]).

use super::{Lane, PIECES_MAX, Piece, Violation, violation};
use crate::doubt::{StopReason, Verdict};
use crate::record::{Answer, Generation, Question, Record, Split};

impl Lane {
    pub(super) fn check_generation(&self, record: &Record, new: &Generation) -> Result<(), Violation> {
        let piece = self.live_piece(record, new.table, new.ordinal, new.piece)?;
        if piece.generation.checked_add(1) != Some(new.generation) {
            let what = format!("generation {} after {}", new.generation, piece.generation);
            return Err(violation(record, "C3", what));
        }
        Ok(())
    }

    pub(super) fn generation(&mut self, new: &Generation) {
        let piece = &mut self.pieces_mut(new.table, new.ordinal)[new.piece as usize];
        piece.generation = new.generation;
        piece.server.clone_from(&new.server);
        (piece.question, piece.verdict) = (None, None);
    }

    pub(super) fn check_question(&self, record: &Record, question: &Question) -> Result<(), Violation> {
        self.live_piece(record, question.table, question.ordinal, question.piece)?;
        if StopReason::from_number(question.reason).is_none() || question.epoch != record.epoch {
            return Err(violation(record, "C8", format!("a question that nobody asks: {question:?}")));
        }
        Ok(())
    }

    pub(super) fn question(&mut self, question: &Question) {
        let piece = &mut self.pieces_mut(question.table, question.ordinal)[question.piece as usize];
        (piece.question, piece.verdict) = (Some(question.clone()), None);
    }

    pub(super) fn check_answer(&self, record: &Record, answer: &Answer) -> Result<(), Violation> {
        let piece = self.live_piece(record, answer.table, answer.ordinal, answer.piece)?;
        if piece.open_question().is_none() || Verdict::from_number(answer.verdict).is_none() {
            let what = format!("an answer to no open question, or one that says nothing: {answer:?}");
            return Err(violation(record, "C8", what));
        }
        Ok(())
    }

    pub(super) fn answer(&mut self, answer: &Answer) {
        let piece = &mut self.pieces_mut(answer.table, answer.ordinal)[answer.piece as usize];
        piece.verdict = Verdict::from_number(answer.verdict);
        let question = piece.question.as_ref().expect("only an open question is answered");
        if StopReason::from_number(question.reason) == Some(StopReason::TableChanged) {
            let accepted = question.table_uuid.clone();
            self.tables[answer.table as usize].accepted_uuid = accepted;
        }
        // Who answers has claimed the lane and runs nothing, so the other questions stay as they were: nothing works on them.
        let epoch = self.epoch;
        let pieces = self.tables.iter_mut().flat_map(|table| table.pending.iter_mut().flatten());
        let open = pieces.filter(|piece| piece.open_question().is_some()).filter_map(|p| p.question.as_mut());
        open.for_each(|question| question.epoch = epoch);
    }

    pub(super) fn check_split(&self, record: &Record, split: &Split) -> Result<(), Violation> {
        let old = self.live_piece(record, split.table, split.ordinal, split.piece)?;
        let rows = split.pieces.iter().try_fold(0_u64, |rows, frame| rows.checked_add(frame.rows));
        if rows != Some(old.frame.rows) {
            return Err(violation(record, "C9", format!("{} rows became {rows:?}", old.frame.rows)));
        }
        let pieces = self.tables[split.table as usize].pieces(split.ordinal).map_or(0, <[Piece]>::len);
        if pieces + split.pieces.len() > PIECES_MAX {
            return Err(violation(record, "C8", format!("more than {PIECES_MAX} pieces of one frame")));
        }
        self.check_layouts(record, &split.layouts, &split.pieces)
    }

    pub(super) fn split(&mut self, split: &Split) {
        self.say_layouts(&split.layouts);
        let table = &self.tables[split.table as usize];
        let layouts: Vec<_> = split.pieces.iter().map(|frame| table.layout(frame.layout)).collect();
        let pieces = self.pieces_mut(split.table, split.ordinal);
        let Piece { server, sealed_at_ms, mut first_row, .. } = pieces[split.piece as usize].clone();
        pieces[split.piece as usize].dead = true;
        for (frame, layout) in split.pieces.iter().zip(layouts) {
            pieces.push(Piece {
                frame: frame.clone(),
                piece: pieces.len() as u32,
                generation: 0,
                segment: split.segment.clone(),
                server: server.clone(),
                dead: false,
                sealed_at_ms,
                question: None,
                verdict: None,
                settled: false,
                first_row,
                layout,
            });
            first_row += frame.rows;
        }
    }
}
