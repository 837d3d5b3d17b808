//! Partition keys over Arrow rows.
//!
//! Owns what is supported, and the grouping. Does not own the grammar (`partition::parse`), nor functions of dates and times
//! (`partition::calendar`). Every part of a key becomes one 64-bit number a row: equal numbers, one group.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use dataflow::{ColumnType, Schema};
use jiff::tz::TimeZone;
use std::collections::BTreeMap;

use super::calendar::Function;
use super::parse::{self, Expr};
use super::{Computed, Group};
use crate::native::{RowRef, Rows};

/// MATERIALIZED columns that are made of MATERIALIZED columns that are …
const SUBSTITUTIONS_MAX: usize = 8;

/// One part of a key: a column and what is done to its values.
#[derive(Debug, PartialEq)]
pub(super) struct Part {
    column: usize,
    kind: Kind,
    steps: Vec<Step>,
}

/// What a column's numbers mean.
#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Int,
    /// An unsigned 64-bit integer: its bits are held as signed ones.
    Wide,
    Day,
    /// Seconds since 1970, in the zone.
    Time(TimeZone),
    /// Only equality is known.
    Opaque,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Calendar(Function, Option<TimeZone>),
    Modulo(i64),
    Divide(i64),
}

/// What a part's expression is made over.
pub(super) struct Compiler<'a> {
    pub(super) schema: &'a Schema,
    pub(super) computed: &'a [Computed],
    pub(super) server_zone: &'a TimeZone,
}

impl Compiler<'_> {
    pub(super) fn part(&self, expr: &Expr) -> Result<Part, String> {
        let mut part = self.compile(expr, 0)?.0;
        // The first function works on the column's own numbers; none at all keeps them.
        part.steps.shrink_to_fit();
        Ok(part)
    }

    /// The part, and what its value means to a function around it.
    fn compile(&self, expr: &Expr, depth: usize) -> Result<(Part, Kind), String> {
        match expr {
            Expr::Name(name) => self.column(name, depth),
            Expr::Call(name, arguments) => {
                let Some((first, rest)) = arguments.split_first() else {
                    return Err(format!("`{name}()` has no arguments"));
                };
                let (mut part, kind) = self.compile(first, depth)?;
                let (step, kind) = self.step(name, &kind, rest)?;
                part.steps.push(step);
                Ok((part, kind))
            }
            Expr::Int(_) | Expr::Number | Expr::Text(_) => Err("a constant is not a partition key".into()),
        }
    }

    fn column(&self, name: &str, depth: usize) -> Result<(Part, Kind), String> {
        if let Some(computed) = self.computed.iter().find(|c| c.name == name) {
            if depth == SUBSTITUTIONS_MAX {
                return Err(format!(
                    "column `{name}` is computed from columns that are computed, too deeply"
                ));
            }
            return self.compile(&parse::expression(&computed.expression)?, depth + 1);
        }
        let Some(index) = self.schema.index_of(name) else {
            return Err(format!(
                "column `{name}` is not written by this pipeline; write it, or partition by one that is"
            ));
        };
        let column = &self.schema.columns()[index];
        if let Some(default) = column.default.as_deref().filter(|d| !super::is_constant(d)) {
            return Err(format!(
                "column `{name}` has the DEFAULT `{default}`, which is not constant: a repeated insert could get another \
                 value and so another partition, where its token is not known; give the column a value in the \
                 pipeline and a constant DEFAULT or none: ALTER TABLE … MODIFY COLUMN {} REMOVE DEFAULT",
                crate::types::identifier(name)
            ));
        }
        let kind = self.kind(&column.column_type)?;
        Ok((Part { column: index, kind: kind.clone(), steps: Vec::new() }, kind))
    }

    fn kind(&self, column_type: &ColumnType) -> Result<Kind, String> {
        Ok(match column_type.bare() {
            ColumnType::Int8 | ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64 => Kind::Int,
            ColumnType::UInt8 | ColumnType::UInt16 | ColumnType::UInt32 => Kind::Int,
            ColumnType::UInt64 => Kind::Wide,
            ColumnType::Bool | ColumnType::Enum8(_) | ColumnType::Enum16(_) | ColumnType::Ipv4 => {
                Kind::Opaque
            }
            ColumnType::String | ColumnType::FixedString(_) | ColumnType::Uuid | ColumnType::Ipv6 => {
                Kind::Opaque
            }
            ColumnType::Date | ColumnType::Date32 => Kind::Day,
            ColumnType::DateTime { timezone } => Kind::Time(self.zone(timezone.as_deref())?),
            // The bare column is told apart by its ticks; a function sees its seconds.
            ColumnType::DateTime64 { timezone, .. } => Kind::Time(self.zone(timezone.as_deref())?),
            other @ (ColumnType::Float32
            | ColumnType::Float64
            | ColumnType::Decimal { .. }
            | ColumnType::Array(_)
            | ColumnType::Map(..)
            | ColumnType::Json { .. }
            | ColumnType::State(_)
            | ColumnType::LowCardinality(_)
            | ColumnType::Nullable(_)) => {
                return Err(format!("a column of type `{}` cannot be cut by", crate::types::name(other)));
            }
        })
    }

    fn zone(&self, name: Option<&str>) -> Result<TimeZone, String> {
        match name {
            None => Ok(self.server_zone.clone()),
            Some(name) => {
                TimeZone::get(name).map_err(|_| format!("the time zone `{name}` is not known here"))
            }
        }
    }

    fn step(&self, name: &str, kind: &Kind, rest: &[Expr]) -> Result<(Step, Kind), String> {
        let unsupported = || {
            format!(
                "`{name}` is not one of the functions that can be evaluated before the insert (toYYYYMM, toDate, \
                 toStartOfHour/Day/Week/Month/Quarter/Year, toMonday, toYear, %, intDiv, … of a column that is written); \
                 partition by one of these, or by a column that holds the value"
            )
        };
        if let ("modulo" | "mod" | "modulolegacy" | "intdiv", Kind::Int | Kind::Wide, [Expr::Int(n)]) =
            (name.to_lowercase().as_str(), kind, rest)
        {
            if *n <= 0 {
                return Err(format!("`{name}` by {n} is not supported"));
            }
            let step = if name.eq_ignore_ascii_case("intdiv") { Step::Divide(*n) } else { Step::Modulo(*n) };
            return Ok((step, kind.clone()));
        }
        let mode = rest.iter().find_map(|e| if let Expr::Int(n) = e { Some(*n) } else { None });
        let zone = rest.iter().find_map(|e| if let Expr::Text(z) = e { Some(z.as_str()) } else { None });
        let known = rest.iter().all(|e| matches!(e, Expr::Int(_) | Expr::Text(_)));
        let function = Function::named(name, mode).filter(|_| known).ok_or_else(unsupported)?;
        match kind {
            // `toStartOfHour` of a date and its like do not exist; `toDateTime` of one would need the zone.
            Kind::Day if matches!(function, Function::Second | Function::Step(_) | Function::HourOfDay) => {
                Err(unsupported())
            }
            Kind::Day => {
                Ok((Step::Calendar(function, None), if function.gives_day() { Kind::Day } else { Kind::Int }))
            }
            Kind::Time(own) => {
                let zone = zone.map(|z| self.zone(Some(z))).transpose()?.unwrap_or_else(|| own.clone());
                let kind = match function {
                    Function::Second | Function::Step(_) => Kind::Time(zone.clone()),
                    f if f.gives_day() && name_gives_date(name) => Kind::Day,
                    // `toYYYYMM` and `toYear` give a number: the day behind it tells apart as well, but is not it.
                    _ => Kind::Opaque,
                };
                Ok((Step::Calendar(function, Some(zone)), kind))
            }
            Kind::Int | Kind::Wide | Kind::Opaque => Err(unsupported()),
        }
    }
}

/// Whether the server's function of that name gives a date, so that another date function may stand around it.
fn name_gives_date(name: &str) -> bool {
    let name = name.to_lowercase();
    name.starts_with("todate")
        || name.starts_with("tostartof")
        || matches!(name.as_str(), "tomonday" | "date")
}

/// One number a row; `None` for a null.
pub(super) struct Values {
    numbers: Vec<Option<i64>>,
    /// The numbers' readable forms, where they are not the numbers themselves.
    show: Show,
}

enum Show {
    Number,
    Wide,
    Calendar(Function),
    Texts(Vec<String>),
}

impl Part {
    pub(super) fn evaluate(&self, batches: &[RecordBatch]) -> Result<Values, String> {
        let mut numbers = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
        let mut names = Interner::default();
        let seconds_only = !self.steps.is_empty();
        for batch in batches {
            let array = batch.column(self.column);
            push_numbers(&**array, seconds_only, &mut numbers, &mut names)?;
        }
        let mut show = match self.kind {
            Kind::Wide => Show::Wide,
            Kind::Int | Kind::Time(_) => Show::Number,
            Kind::Day => Show::Calendar(Function::Day),
            Kind::Opaque if names.texts.is_empty() => Show::Number,
            Kind::Opaque => Show::Texts(names.texts),
        };
        let mut wide = self.kind == Kind::Wide;
        for step in &self.steps {
            show = match step {
                Step::Calendar(function, zone) => {
                    calendar(&mut numbers, *function, zone.as_ref());
                    Show::Calendar(*function)
                }
                Step::Modulo(n) => {
                    each(&mut numbers, |v| if wide { (v as u64 % *n as u64) as i64 } else { v % n });
                    Show::Number
                }
                Step::Divide(n) => {
                    each(&mut numbers, |v| if wide { (v as u64 / *n as u64) as i64 } else { v / n });
                    if wide && *n == 1 { Show::Wide } else { Show::Number }
                }
            };
            wide &= matches!(show, Show::Wide);
        }
        Ok(Values { numbers, show })
    }
}

impl Values {
    fn show(&self, value: Option<i64>) -> String {
        match (value, &self.show) {
            (None, _) => "null".into(),
            (Some(v), Show::Number) => v.to_string(),
            (Some(v), Show::Wide) => (v as u64).to_string(),
            (Some(v), Show::Calendar(function)) => function.show(v),
            (Some(v), Show::Texts(texts)) => texts[v as usize].clone(),
        }
    }
}

fn each(numbers: &mut [Option<i64>], f: impl Fn(i64) -> i64) {
    numbers.iter_mut().flatten().for_each(|v| *v = f(*v));
}

fn calendar(numbers: &mut [Option<i64>], function: Function, zone: Option<&TimeZone>) {
    let (mut value, mut range) = (0, 0..0);
    for number in numbers.iter_mut().flatten() {
        if !range.contains(number) {
            (value, range) = match zone {
                Some(zone) => function.of_second(*number, zone),
                None => function.of_day(*number),
            };
        }
        *number = value;
    }
}

/// Values of which only equality is known, numbered in the order of their first appearance.
#[derive(Default)]
struct Interner {
    numbers: BTreeMap<Vec<u8>, i64>,
    texts: Vec<String>,
}

impl Interner {
    fn number(&mut self, value: &[u8]) -> i64 {
        if let Some(known) = self.numbers.get(value) {
            return *known;
        }
        let number = self.texts.len() as i64;
        self.numbers.insert(value.to_vec(), number);
        self.texts.push(match std::str::from_utf8(value) {
            Ok(text) => crate::types::shorten(text, 64),
            Err(_) => value.iter().take(32).map(|b| format!("{b:02x}")).collect(),
        });
        number
    }
}

fn push_numbers(
    array: &dyn Array,
    seconds_only: bool,
    numbers: &mut Vec<Option<i64>>,
    names: &mut Interner,
) -> Result<(), String> {
    /// The numbers of a primitive array, changed by `f`.
    fn primitive<T: ArrowPrimitiveType>(
        array: &dyn Array,
        numbers: &mut Vec<Option<i64>>,
        f: impl Fn(T::Native) -> i64,
    ) {
        numbers.extend(array.as_primitive::<T>().iter().map(|v| v.map(&f)));
    }
    let per_second = |unit: &TimeUnit| match unit {
        _ if !seconds_only => 1,
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    match array.data_type() {
        DataType::Int8 => primitive::<Int8Type>(array, numbers, i64::from),
        DataType::Int16 => primitive::<Int16Type>(array, numbers, i64::from),
        DataType::Int32 => primitive::<Int32Type>(array, numbers, i64::from),
        DataType::Int64 => primitive::<Int64Type>(array, numbers, |v| v),
        DataType::UInt8 => primitive::<UInt8Type>(array, numbers, i64::from),
        DataType::UInt16 => primitive::<UInt16Type>(array, numbers, i64::from),
        DataType::UInt32 => primitive::<UInt32Type>(array, numbers, i64::from),
        DataType::UInt64 => primitive::<UInt64Type>(array, numbers, |v| v as i64),
        DataType::Date32 => primitive::<Date32Type>(array, numbers, i64::from),
        DataType::Boolean => numbers.extend(array.as_boolean().iter().map(|v| v.map(i64::from))),
        DataType::Timestamp(unit, _) => {
            let per = per_second(unit);
            match unit {
                TimeUnit::Second => primitive::<TimestampSecondType>(array, numbers, |v| v),
                TimeUnit::Millisecond => {
                    primitive::<TimestampMillisecondType>(array, numbers, |v| v.div_euclid(per))
                }
                TimeUnit::Microsecond => {
                    primitive::<TimestampMicrosecondType>(array, numbers, |v| v.div_euclid(per))
                }
                TimeUnit::Nanosecond => {
                    primitive::<TimestampNanosecondType>(array, numbers, |v| v.div_euclid(per))
                }
            }
        }
        DataType::Utf8 => {
            numbers.extend(array.as_string::<i32>().iter().map(|v| v.map(|v| names.number(v.as_bytes()))));
        }
        DataType::Binary => {
            numbers.extend(array.as_binary::<i32>().iter().map(|v| v.map(|v| names.number(v))));
        }
        DataType::FixedSizeBinary(_) => {
            numbers.extend(array.as_fixed_size_binary().iter().map(|v| v.map(|v| names.number(v))));
        }
        other => return Err(format!("rows of `{other}` cannot be cut by partition")),
    }
    Ok(())
}

/// Those of the rows that have equal values in every part, in the order of the first of each.
pub(super) fn group(values: &[Values], batches: &[RecordBatch], rows: Rows<'_>) -> Vec<Group> {
    let mut groups: Vec<(usize, Vec<RowRef>)> = Vec::new();
    let mut known: BTreeMap<Vec<Option<i64>>, usize> = BTreeMap::new();
    let same = |a: usize, b: usize| values.iter().all(|v| v.numbers[a] == v.numbers[b]);
    let mut current = None::<(usize, usize)>;
    let batch_rows = batches.iter().map(RecordBatch::num_rows);
    let numbers_before: Vec<usize> =
        batch_rows.clone().scan(0, |next, rows| Some(std::mem::replace(next, *next + rows))).collect();
    rows.for_each(batch_rows, |batch, row| {
        let row_number = numbers_before[batch] + row;
        // Rows of one partition mostly come in runs.
        let index = match current {
            Some((last, index)) if same(last, row_number) => index,
            _ => {
                let key = values.iter().map(|v| v.numbers[row_number]).collect();
                *known.entry(key).or_insert_with(|| {
                    groups.push((row_number, Vec::new()));
                    groups.len() - 1
                })
            }
        };
        groups[index].1.push(RowRef { batch: batch as u32, row: row as u32 });
        current = Some((row_number, index));
    });
    let name = |row: usize| values.iter().map(|v| v.show(v.numbers[row])).collect::<Vec<_>>().join("-");
    if let [(first, _)] = groups[..] {
        return vec![Group { partition: name(first), rows: None }];
    }
    groups.into_iter().map(|(first, rows)| Group { partition: name(first), rows: Some(rows) }).collect()
}
