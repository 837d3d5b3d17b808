//! The columns that a lane's frames were made for.
//!
//! Owns their numbers: which are kept (those of frames that wait, and of the frame that was sealed last), and that a frame
//! names one that is said. Does not own what a change of columns means for a frame (the table does).

use std::sync::Arc;

use super::{Lane, TableState, Violation, violation};
use crate::record::{Frame, Layout, LayoutColumn, Record};

impl TableState {
    /// The columns behind a number; `None` for 0, and for one that is not kept.
    pub fn layout(&self, number: u32) -> Option<Arc<Layout>> {
        find(&self.layouts, number)
    }

    /// The columns of the frame that was sealed last, if a record says them.
    pub fn newest_layout(&self) -> Option<Arc<Layout>> {
        self.layout(self.newest_layout)
    }

    /// The number for frames of `table`, this one's index, with these columns, and what the next record must say of it, if it is new.
    /// No columns are number 0.
    pub fn number_layout(&self, table: u32, columns: &[LayoutColumn]) -> (u32, Option<Layout>) {
        if columns.is_empty() {
            return (0, None);
        }
        if let Some(known) = self.layouts.iter().find(|layout| layout.columns == columns) {
            return (known.number, None);
        }
        let is_free = |number: &u32| self.layouts.iter().all(|layout| layout.number != *number);
        let number = (1..=u32::MAX).find(is_free).expect("fewer lists of columns than numbers");
        (number, Some(Layout { table, number, columns: columns.to_vec() }))
    }

    /// The columns of pieces that are still to be delivered, each once.
    pub fn live_layouts(&self) -> Vec<Arc<Layout>> {
        let is_live = |number: u32| {
            self.pending.iter().flatten().any(|piece| piece.is_live() && piece.frame.layout == number)
        };
        self.layouts.iter().filter(|layout| is_live(layout.number)).cloned().collect()
    }
}

impl Lane {
    pub(super) fn check_layouts(
        &self,
        record: &Record,
        layouts: &[Layout],
        frames: &[Frame],
    ) -> Result<(), Violation> {
        for (n, layout) in layouts.iter().enumerate() {
            let Some(table) = self.tables.get(layout.table as usize) else {
                return Err(violation(record, "order", format!("table {} has no genesis", layout.table)));
            };
            let is_same = |other: &Layout| (other.table, other.number) == (layout.table, layout.number);
            let is_known = table.layout(layout.number).is_some() || layouts[..n].iter().any(is_same);
            if layout.number == 0 || layout.columns.is_empty() || is_known {
                let what =
                    format!("columns {} of `{}` are said twice, or not at all", layout.number, table.name);
                return Err(violation(record, "C3", what));
            }
        }
        for frame in frames.iter().filter(|frame| frame.layout != 0) {
            let said = layouts.iter().any(|l| (l.table, l.number) == (frame.table, frame.layout));
            let known = self.tables.get(frame.table as usize).and_then(|table| table.layout(frame.layout));
            if !said && known.is_none() {
                let what =
                    format!("frame {} names columns {} that no record says", frame.ordinal, frame.layout);
                return Err(violation(record, "C3", what));
            }
        }
        Ok(())
    }

    pub(super) fn say_layouts(&mut self, layouts: &[Layout]) {
        for layout in layouts {
            self.tables[layout.table as usize].layouts.push(Arc::new(layout.clone()));
        }
    }

    /// Forgets what no frame needs any more.
    pub(super) fn forget_layouts(&mut self) {
        for table in self.tables.iter_mut().filter(|table| table.layouts.len() > 1) {
            let (newest, pending) = (table.newest_layout, &table.pending);
            let is_needed = |number: u32| pending.iter().flatten().any(|piece| piece.frame.layout == number);
            table.layouts.retain(|layout| layout.number == newest || is_needed(layout.number));
        }
    }
}

pub(super) fn find(layouts: &[Arc<Layout>], number: u32) -> Option<Arc<Layout>> {
    layouts.iter().find(|layout| layout.number == number).cloned()
}
