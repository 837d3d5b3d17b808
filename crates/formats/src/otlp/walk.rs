//! One request after the other into the columns of a batch.
//!
//! Owns the walk from a request over its resources, scopes and metrics to its rows, what rows share, and that a row or a request that is turned
//! down leaves nothing behind. Does not own blocks and rejects ([`super`]).
//!
//! | what is broken                                  | what is turned down                        |
//! |-------------------------------------------------|--------------------------------------------|
//! | the request, or a resource's, scope's or metric's list of rows | the request                 |
//! | a resource or a scope itself, or a value of it  | each of its rows                           |
//! | a row, or a value of it                         | that row                                   |
//!
//! Columns that rows share are filled at the first of them and repeated at the end, so their cost is that of a copy.

use arrow_array::ArrayRef;
use dataflow::Spans;
use dataflow::block::TIME_UNKNOWN_MS;

use super::Signal;
use super::fault::{Fault, Step, fits};
use super::fill::{Scratch, fill};
use super::messages::{self as m, log, point, span};
use super::plan::{Fill, Plan};
use super::split::Around;
use super::wire::{Slots, Spec, Wire};
use crate::columns::{self, TypedColumn};

/// Bytes that the rows of a request may take in columns for each of its own, and beside that. What rows share is repeated in each, so
/// without a bound a request of a megabyte could take a terabyte. Rows of twenty bytes under a resource of two kilobytes stay within it.
pub const GROWTH_MAX: usize = 128;
/// See [`GROWTH_MAX`].
const GROWTH_BASE: usize = 16 << 10;
/// However large a request is: eight times the largest that a gateway takes. A batch of 8,192 rows, which senders make, may have 16 KiB a row. Each
/// thread that decodes may have one such request in memory, and a process that died of it would read the same one at its next start.
const WEIGHT_MAX: usize = 128 << 20;
/// What a row takes in columns of numbers, about.
const ROW_BYTES: usize = 256;

/// A row that is turned down: its number among the rows of its request, why, and a request that holds nothing else.
pub(super) type Turned = (u32, Box<Fault>, Vec<u8>);

/// The columns of a batch while it is decoded.
pub(super) struct Walk<'p, 'a> {
    plan: &'p Plan,
    columns: Vec<Box<dyn TypedColumn>>,
    scratch: Scratch<'a>,
    /// The rows that are complete, and those of them that requests before this one have.
    rows: usize,
    rows_before: usize,
    /// Rows of the request under way that are turned down.
    turned: Vec<Turned>,
    /// If rows are wanted as requests of their own: these, and nothing in columns.
    apart: Option<Spans>,
    /// If rows are only looked at: which of them are broken.
    sorted: Option<Sorted>,
    /// Bytes that the rows of the request took, about, and may take.
    weight: usize,
    weight_max: usize,
    /// The source's time of the request, in nanoseconds; 0 if unknown.
    time_ns: u64,
    /// Why no row of the resource or scope under way can be taken.
    spoilt: Option<Box<Fault>>,
    around: Around<'a>,
    row: Slots<'a>,
}

/// The rows of a request that are broken, whatever the columns.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    /// Where in the request each of them begins, in order.
    pub broken: Vec<usize>,
    /// The number of the first, from 1, and what is wrong with it.
    pub first: Option<(usize, Box<Fault>)>,
    /// Where the request begins in memory.
    begin: usize,
}

/// The rows of a request.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Rows that were appended to the columns.
    pub rows: usize,
    /// Rows that are turned down.
    pub turned: Vec<Turned>,
}

impl<'p, 'a> Walk<'p, 'a> {
    /// No rows yet; `patterns` are the columns of the plan's schema.
    pub fn new(plan: &'p Plan, patterns: &[Box<dyn TypedColumn>], rows_expected: usize) -> Self {
        Self {
            plan,
            columns: columns::fresh(patterns, rows_expected),
            scratch: Scratch::default(),
            rows: 0,
            rows_before: 0,
            turned: Vec::new(),
            apart: None,
            sorted: None,
            weight: 0,
            weight_max: 0,
            time_ns: 0,
            spoilt: None,
            around: Around::default(),
            row: Slots::default(),
        }
    }

    /// The rows of a request as requests of their own.
    pub fn apart(plan: &'p Plan, request: &'a [u8]) -> Step<Spans> {
        let mut walk = Self { apart: Some(Spans::default()), ..Self::new(plan, &[], 0) };
        walk.push(request, TIME_UNKNOWN_MS)?;
        Ok(walk.apart.take().unwrap_or_default())
    }

    /// How many rows of a request are whole, and which are not. Values are not looked at.
    pub fn sort(signal: Signal, request: &[u8]) -> Step<(usize, Sorted)> {
        let plan = Plan::of_nothing(signal);
        let sorted = Sorted { begin: request.as_ptr() as usize, ..Sorted::default() };
        let mut walk = Walk { sorted: Some(sorted), ..Walk::new(&plan, &[], 0) };
        let taken = walk.push(request, TIME_UNKNOWN_MS)?;
        Ok((taken.rows, walk.sorted.take().unwrap_or_default()))
    }

    /// Appends the rows of a request. After an error all columns are as they were before.
    pub fn push(&mut self, request: &'a [u8], time_ms: i64) -> Step<Taken> {
        let before = self.rows;
        self.rows_before = before;
        self.time_ns = u64::try_from(time_ms).map_or(0, |ms| ms.saturating_mul(1_000_000));
        self.weight = 0;
        self.weight_max = (GROWTH_BASE + GROWTH_MAX * request.len()).min(WEIGHT_MAX);
        self.spoilt = None;
        match self.request(request) {
            Ok(()) => Ok(Taken { rows: self.rows - before, turned: std::mem::take(&mut self.turned) }),
            Err(fault) => {
                self.rows = before;
                self.columns.iter_mut().for_each(|column| column.truncate(before));
                self.turned.clear();
                Err(fault)
            }
        }
    }

    /// The columns as Arrow arrays, in the order of the schema.
    pub fn finish(self) -> Vec<ArrayRef> {
        columns::finished(self.columns)
    }

    fn request(&mut self, request: &'a [u8]) -> Step<()> {
        let mut rest = Wire(request);
        while !rest.0.is_empty() {
            let broken =
                || Fault::malformed(format!("the bytes are no request of {}", self.plan.signal.name()));
            match rest.key() {
                Some((1, 2)) => {
                    let resource = rest.sized().ok_or_else(broken)?;
                    self.resource(resource)?;
                }
                Some((1, _)) | None => return Err(broken()),
                Some((_, wire)) => rest.skip(wire).ok_or_else(broken)?,
            }
        }
        Ok(())
    }

    fn resource(&mut self, bytes: &'a [u8]) -> Step<()> {
        self.around.resource.read(&m::GROUP, bytes)?;
        let scopes = std::mem::take(&mut self.around.resource.lists[m::HELD]);
        let (about, url) = (&self.around.resource.lists[m::ABOUT], self.around.resource.texts[0]);
        let read = self.row.read_all(&m::RESOURCE, about);
        self.row.texts[usize::from(m::RESOURCE_URL)] = url;
        self.around.resource_bytes = about.iter().map(|piece| piece.len()).sum::<usize>() + url.len();
        let plan = self.plan;
        self.shared(&plan.resource, read, |walk| scopes.iter().try_for_each(|scope| walk.scope(scope)))?;
        self.around.resource.lists[m::HELD] = scopes;
        Ok(())
    }

    fn scope(&mut self, bytes: &'a [u8]) -> Step<()> {
        self.around.scope.read(&m::GROUP, bytes)?;
        let held = std::mem::take(&mut self.around.scope.lists[m::HELD]);
        let (about, url) = (&self.around.scope.lists[m::ABOUT], self.around.scope.texts[0]);
        let read = self.row.read_all(&m::SCOPE, about);
        self.row.texts[usize::from(m::SCOPE_URL)] = url;
        self.around.scope_bytes = about.iter().map(|piece| piece.len()).sum::<usize>() + url.len();
        let plan = self.plan;
        self.shared(&plan.scope, read, |walk| match plan.signal {
            Signal::Logs => held.iter().try_for_each(|row| walk.take(0, &m::LOG, row)),
            Signal::Traces => held.iter().try_for_each(|row| walk.take(0, &m::SPAN, row)),
            Signal::Metrics => held.iter().try_for_each(|metric| walk.metric(metric)),
        })?;
        self.around.scope.lists[m::HELD] = held;
        Ok(())
    }

    fn metric(&mut self, bytes: &'a [u8]) -> Step<()> {
        static POINTS: [&Spec; 5] = [&m::NUMBER, &m::NUMBER, &m::HISTOGRAM, &m::EXPONENTIAL, &m::SUMMARY];
        self.around.metric.read(&m::METRIC, bytes)?;
        let kind = self.around.metric.numbers[0];
        let Some(kind) = m::metric::KINDS.iter().position(|known| *known == kind) else {
            // A metric without data has no rows.
            return Ok(());
        };
        self.around.data.read_all(&m::DATA, &self.around.metric.lists[0])?;
        let points = std::mem::take(&mut self.around.data.lists[0]);
        let metric = &self.around.metric;
        self.around.metric_bytes = metric.texts.iter().map(|text| text.len()).sum::<usize>()
            + metric.lists[usize::from(m::metric::METADATA)].iter().map(|piece| piece.len()).sum::<usize>();
        // What is filled from it stands where rows are read.
        std::mem::swap(&mut self.row, &mut self.around.metric);
        let (plan, before) = (self.plan, self.rows);
        let entered = self.enter(&plan.metric);
        std::mem::swap(&mut self.row, &mut self.around.metric);
        let spoils = self.spoil(entered);
        for at in &points {
            self.take(kind, POINTS[kind], at)?;
        }
        self.leave(&plan.metric, before, spoils)?;
        self.around.data.lists[0] = points;
        self.around.metric_bytes = 0;
        Ok(())
    }

    /// Fills columns that rows share from the message at hand, which was `read`, does the rows, and repeats the columns for all of them.
    fn shared(
        &mut self,
        fills: &[Fill],
        read: Step<()>,
        rows: impl FnOnce(&mut Self) -> Step<()>,
    ) -> Step<()> {
        let before = self.rows;
        let entered = read.and_then(|()| self.enter(fills));
        let spoils = self.spoil(entered);
        rows(self)?;
        self.leave(fills, before, spoils)
    }

    /// Appends the values that the rows to come share, once. After an error none of them.
    fn enter(&mut self, fills: &[Fill]) -> Step<()> {
        if self.spoilt.is_some() || self.apart.is_some() {
            return Ok(());
        }
        fills.iter().try_for_each(|fill| self.fill(fill)).inspect_err(|_| {
            fills.iter().for_each(|fill| self.columns[fill.column].truncate(self.rows));
        })
    }

    /// Keeps the fault for the rows to come; whether it is this one.
    fn spoil(&mut self, entered: Step<()>) -> bool {
        let spoils = self.spoilt.is_none() && entered.is_err();
        if spoils {
            self.spoilt = entered.err();
        }
        spoils
    }

    /// Repeats the values that were appended once for all rows since.
    fn leave(&mut self, fills: &[Fill], before: usize, spoils: bool) -> Step<()> {
        if spoils {
            self.spoilt = None;
        }
        if self.spoilt.is_some() || self.apart.is_some() || spoils {
            return Ok(());
        }
        let times = (self.rows - before).checked_sub(1);
        for fill in fills {
            let column = &mut self.columns[fill.column];
            match times {
                None => column.truncate(before),
                Some(0) => {}
                Some(times) => fits(column.repeat(before, times), "shared by rows")
                    .map_err(|fault| fault.in_column(fill.column, fill.field))?,
            }
        }
        Ok(())
    }

    fn fill(&mut self, fill: &Fill) -> Step<()> {
        let Fill { column, field, what } = *fill;
        let (into, absence) = (&mut *self.columns[column], &self.plan.absences[column]);
        super::fill::fill(what, &self.row, into, absence, &mut self.scratch)
            .map_err(|fault| fault.in_column(column, field))
    }

    /// Appends a row, or notes that it is turned down.
    #[inline]
    fn take(&mut self, kind: usize, spec: &'static Spec, bytes: &'a [u8]) -> Step<()> {
        self.weight += ROW_BYTES + bytes.len() + self.around.bytes();
        if self.weight > self.weight_max {
            return Err(too_heavy(self.weight_max));
        }
        if let Some(apart) = &mut self.apart {
            apart.push(&self.around.request(bytes, kind));
            return Ok(());
        }
        let taken = match &self.spoilt {
            Some(fault) => Err(fault.clone()),
            None => self.row.read(spec, bytes).and_then(|()| self.row_columns(kind)),
        };
        match taken {
            Ok(()) => self.rows += 1,
            Err(fault) => match &mut self.sorted {
                Some(sorted) => sorted.add(bytes, self.rows, fault),
                None => {
                    let row = self.rows - self.rows_before + self.turned.len();
                    let turned = self.around.request(bytes, kind);
                    self.turned.push((row as u32, fault, turned));
                }
            },
        }
        Ok(())
    }

    /// Appends the row that was read. After an error nothing.
    #[inline]
    fn row_columns(&mut self, kind: usize) -> Step<()> {
        self.complete();
        let Self { plan, columns, scratch, row, rows, .. } = self;
        let fills = &plan.rows[kind];
        let mut each = fills.iter();
        let filled = each.try_for_each(|Fill { column, field, what }| {
            fill(what, row, &mut *columns[*column], &plan.absences[*column], scratch)
                .map_err(|fault| fault.in_column(*column, field))
        });
        let filled = filled.and_then(|()| {
            plan.absent
                .iter()
                .try_for_each(|column| fits(plan.absences[*column].append(&mut *columns[*column]), "null"))
        });
        if filled.is_err() {
            let own = fills.iter().map(|fill| fill.column).chain(plan.absent.iter().copied());
            own.for_each(|column| columns[column].truncate(*rows));
        }
        filled
    }

    /// Puts what a row does not say of itself where its columns look for it. A time that was not set would be 1970, and be expired at once.
    fn complete(&mut self) {
        let known = self.time_ns;
        let row = &mut self.row;
        let or = |first: u64, second: u64| if first == 0 { second } else { first };
        match self.plan.signal {
            Signal::Logs => {
                let observed = row.numbers[usize::from(log::OBSERVED)];
                let time = &mut row.numbers[usize::from(log::TIME)];
                *time = or(*time, or(observed, known));
            }
            Signal::Traces => {
                let (start, end) =
                    (row.numbers[usize::from(span::START)], row.numbers[usize::from(span::END)]);
                row.numbers[usize::from(span::DURATION)] =
                    if start == 0 { 0 } else { end.saturating_sub(start) };
                row.numbers[usize::from(span::START)] = or(start, or(end, known));
            }
            Signal::Metrics => {
                let time = &mut row.numbers[usize::from(point::TIME)];
                *time = or(*time, known);
                let data = &self.around.data;
                row.numbers[usize::from(point::TEMPORALITY)] = data.numbers[0];
                row.numbers[usize::from(point::IS_MONOTONIC)] = data.numbers[1];
            }
        }
    }
}

impl Sorted {
    #[cold]
    fn add(&mut self, row: &[u8], whole_before: usize, fault: Box<Fault>) {
        let number = whole_before + self.broken.len() + 1;
        self.first.get_or_insert((number, fault));
        self.broken.push(row.as_ptr() as usize - self.begin);
    }
}

#[cold]
fn too_heavy(bytes: usize) -> Box<Fault> {
    let why = match bytes {
        WEIGHT_MAX => "the most for a request".to_owned(),
        _ => format!("{GROWTH_MAX} for each of its own"),
    };
    Fault::too_large(format!(
        "its rows, each with the attributes of its resource and scope, take more than `{bytes}` bytes ({why}): send fewer attributes with a \
         resource, or fewer rows in a request"
    ))
}
