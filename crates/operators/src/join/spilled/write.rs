//! From runs in memory to files, one at a time.
//!
//! Owns the order of the writing, beside the lane; what it wrote counts once the step has adopted it. Does not own the bytes (`spilled::file`): they were
//! made when the runs were frozen, because rows are compared with them from then on.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use dataflow::StateError;
use dataflow::operator::{Given, Need, StateWork};

use crate::join::codec::damaged;

/// Runs on their way to files.
pub(in crate::join) struct Write {
    left: VecDeque<(u64, Arc<Vec<u8>>)>,
    /// The run that is being written.
    writing: Option<u64>,
    written: Vec<(u64, Arc<str>)>,
    is_done: bool,
}

impl Write {
    /// Of these runs, by their numbers.
    pub fn new(left: VecDeque<(u64, Arc<Vec<u8>>)>) -> Self {
        Self { left, writing: None, written: Vec::new(), is_done: false }
    }

    /// The objects of the runs, once all are written.
    pub fn written(self) -> Option<Vec<(u64, Arc<str>)>> {
        self.is_done.then_some(self.written)
    }
}

impl StateWork for Write {
    fn step(&mut self, given: Given) -> Result<Need, StateError> {
        match (self.writing.take(), given) {
            (None, Given::Start) => {}
            (Some(number), Given::Written(object)) => self.written.push((number, object)),
            _ => return Err(damaged("is written with an answer that was not asked for")),
        }
        let Some((number, bytes)) = self.left.pop_front() else {
            self.is_done = true;
            return Ok(Need::Done);
        };
        self.writing = Some(number);
        Ok(Need::Write(bytes.to_vec()))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}
