//! What a join step is, apart from its state.
//!
//! Owns the checks of its settings, the columns of its rows, and the words that its state is known by. Does not own the state.

mod settings;

use std::sync::Arc;
use std::time::Duration;

use arrow_schema::{DataType, Field, SchemaRef};
use dataflow::{Column, ColumnType, KeptEnum, Schema};

use super::forms;
use crate::ConfigError;
use crate::config::column_index;
use crate::dedup::key::{ANY_KEY, Keyer, key_kind};
use crate::mapping::types::{Conversion, conversion};
use settings::DURATION_MAX;
pub use settings::{COLUMNS_MAX, JoinColumn, JoinConfig, JoinKind, JoinSide, KEY_COLUMNS_MAX};

/// A column that the state keeps.
pub(super) struct Stored {
    pub name: String,
    pub form: DataType,
    /// What its type is known by in the state.
    pub words: String,
    /// The Enums within, whose numbers the state keeps.
    pub enums: Vec<KeptEnum>,
    /// Whether it may be null.
    pub is_optional: bool,
}

/// What the step does with the rows of one side.
pub(super) struct SidePlan {
    pub keyer: Keyer,
    /// The columns that the state keeps: those of the output and of rows beside it, each once.
    pub columns: Vec<Stored>,
    /// How much earlier than a row of this side the other row of a pair may be, and how much later.
    pub earlier_ms: i64,
    pub later_ms: i64,
    /// Whether its rows without a match become rows of the output.
    pub is_outer: bool,
    /// What they are beside the output, if they go out there.
    pub aside: Option<Aside>,
}

/// Rows of one side without a match, beside the output.
pub(super) struct Aside {
    /// The places of their columns among the stored ones.
    pub at: Vec<usize>,
    pub output: Schema,
}

/// A stored column of the key, and the one of the other side that it is equal to in every pair.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct StandIn {
    pub side: JoinSide,
    /// The place among the stored columns of that side.
    pub at: usize,
    /// The place of its partner among those of the other side.
    pub partner: usize,
}

/// Where a column of the output comes from.
pub(super) struct Origin {
    pub side: JoinSide,
    /// The place among the stored columns of that side.
    pub at: usize,
    /// The place among [`Plan::stand_ins`] of what fills it in rows without a match.
    pub stand_in: Option<usize>,
}

/// What the step is, apart from its state.
pub(super) struct Plan {
    /// The columns of the left input and of the right one.
    pub inputs: [Schema; 2],
    pub sides: [SidePlan; 2],
    /// Where each column of the output comes from.
    pub from: Vec<Origin>,
    /// Columns of the key that a row without a match takes from the side that is there.
    pub stand_ins: Vec<StandIn>,
    pub output: Schema,
    /// The names of the left key columns and the right ones, for messages.
    pub keys: String,
    pub lateness_ms: i64,
    pub shape: String,
    /// The place among the right side's stored columns of the one that says whether a version deletes its key: of a temporal join alone.
    pub deleted: Option<usize>,
}

/// Which rows of the two sides go together.
#[derive(Clone, Copy)]
pub(super) enum Rule<'a> {
    /// Those near in time.
    Interval,
    /// A left row and the right side's version at its time; the column of the right side that says that a version deletes its key.
    Version(Option<&'a str>),
}

fn fail<T>(setting: &'static str, message: String) -> Result<T, ConfigError> {
    Err(ConfigError::Setting { setting, message })
}

impl Plan {
    /// For batches of `left` and `right`.
    ///
    /// # Errors
    /// When a column is unknown, named twice or of a type that does not serve, or a setting is out of its bounds.
    pub fn new(
        left: &Schema,
        right: &Schema,
        config: &JoinConfig,
        rule: Rule<'_>,
    ) -> Result<Self, ConfigError> {
        let before_ms = millis("join.before", config.before)?;
        let after_ms = millis("join.after", config.after)?;
        let lateness_ms = millis("join.lateness", config.lateness)?;
        check_key(left, right, &config.on)?;
        if config.columns.is_empty() || config.columns.len() > COLUMNS_MAX {
            return fail(
                "join.columns",
                format!("`{}` columns; name 1 to {COLUMNS_MAX}", config.columns.len()),
            );
        }
        let schemas = [left, right];
        let mut stored = [Vec::<Stored>::new(), Vec::new()];
        let (mut from, mut output, mut stand_ins) = (Vec::new(), Vec::<Column>::new(), Vec::<StandIn>::new());
        for column in &config.columns {
            let other = column.side.other();
            let partner = partner(config, column)
                .filter(|_| !column.is_of_side_alone)
                .map(|name| &schemas[other as usize].columns()[name_at(schemas, other, name)]);
            let found = output_column(schemas[column.side as usize], column, (config.kind, partner))?;
            if output.iter().any(|other| other.name == column.name) {
                let name = column.name.clone();
                return Err(ConfigError::RepeatedColumn { setting: "join.columns", name });
            }
            let mut store =
                |side: JoinSide, of_input: &Column| stored_at(&mut stored[side as usize], of_input);
            let own = &schemas[column.side as usize].columns()[name_at(schemas, column.side, &column.from)];
            let at = store(column.side, own);
            let stand_in = partner.map(|partner| {
                let stand_in = StandIn { side: column.side, at, partner: store(other, partner) };
                stand_ins.iter().position(|known| *known == stand_in).unwrap_or_else(|| {
                    stand_ins.push(stand_in);
                    stand_ins.len() - 1
                })
            });
            from.push(Origin { side: column.side, at, stand_in });
            output.push(found);
        }
        let deleted = match rule {
            Rule::Version(Some(name)) => Some(deleted_at(right, name, &mut stored[1])?),
            Rule::Version(None) | Rule::Interval => None,
        };
        let aside = JoinSide::BOTH
            .map(|side| aside((schemas[side as usize], side), config, &mut stored[side as usize]));
        let names = |side: JoinSide| -> Vec<String> {
            let name = |(left, right): &(String, String)| match side {
                JoinSide::Left => left.clone(),
                JoinSide::Right => right.clone(),
            };
            config.on.iter().map(name).collect()
        };
        let keys: Vec<String> =
            config.on.iter().map(|(left, right)| format!("`{left}` = `{right}`")).collect();
        let ([of_left, of_right], [left_aside, right_aside]) = (stored, aside);
        let side = |side: JoinSide, columns, aside, earlier_ms, later_ms| -> Result<SidePlan, ConfigError> {
            let keyer = Keyer::with_items(schemas[side as usize], &names(side))?;
            Ok(SidePlan { keyer, columns, earlier_ms, later_ms, is_outer: config.kind.keeps(side), aside })
        };
        let sides = [
            side(JoinSide::Left, of_left, left_aside?, before_ms, after_ms)?,
            side(JoinSide::Right, of_right, right_aside?, after_ms, before_ms)?,
        ];
        let words = format!(
            "kind `{}`, left {}, right {}",
            config.kind.word(),
            side_words(&sides[0]),
            side_words(&sides[1])
        );
        let lateness = format!("lateness `{lateness_ms}ms`");
        let shape = match (rule, deleted) {
            (Rule::Interval, _) => {
                format!("{words}, before `{before_ms}ms`, after `{after_ms}ms`, {lateness}")
            }
            (Rule::Version(_), None) => format!("the version at the time, {words}, {lateness}"),
            (Rule::Version(_), Some(_)) => {
                format!("the version at the time unless it is deleted, {words}, {lateness}")
            }
        };
        let keys = keys.join(", ");
        let inputs = [left.clone(), right.clone()];
        Ok(Self {
            inputs,
            sides,
            from,
            stand_ins,
            output: Schema::new(output),
            keys,
            lateness_ms,
            shape,
            deleted,
        })
    }

    pub fn side(&self, side: JoinSide) -> &SidePlan {
        &self.sides[side as usize]
    }

    /// The Enums of both keys, and of the columns that are kept.
    pub fn enums(&self) -> Vec<KeptEnum> {
        let of_side = |side: JoinSide| {
            let SidePlan { keyer, columns, .. } = self.side(side);
            let of_key = keyer.columns().iter().flat_map(|column| column.kept_enums.clone());
            let of_columns = columns.iter().flat_map(|column| column.enums.clone());
            let named =
                move |found: KeptEnum| KeptEnum { of: format!("{}.{}", side.word(), found.of), ..found };
            of_key.chain(of_columns).map(named).collect::<Vec<_>>()
        };
        JoinSide::BOTH.into_iter().flat_map(of_side).collect()
    }

    /// The time before which a row is late: `i64::MIN` while there is no watermark.
    pub fn floor_ms(&self, watermark_ms: i64) -> i64 {
        watermark_ms.saturating_sub(self.lateness_ms)
    }
}

/// The form of rows of `output` where these are the forms of their columns: a text that is not UTF-8 makes its column Binary.
pub(super) fn arrow(output: &Schema, columns: &[arrow_array::ArrayRef]) -> SchemaRef {
    let declared = output.arrow();
    let is_declared =
        |(field, column): (&Arc<Field>, &arrow_array::ArrayRef)| field.data_type() == column.data_type();
    if declared.fields().iter().zip(columns).all(is_declared) {
        return declared.clone();
    }
    let field = |(field, column): (&Arc<Field>, &arrow_array::ArrayRef)| {
        field.as_ref().clone().with_data_type(column.data_type().clone())
    };
    let fields: Vec<Field> = declared.fields().iter().zip(columns).map(field).collect();
    Arc::new(arrow_schema::Schema::new(fields))
}

impl SidePlan {
    /// Whether its rows without a match go anywhere.
    pub fn lets_out(&self) -> bool {
        self.is_outer || self.aside.is_some()
    }

    /// Whether no row with a time of at least `floor_ms` can match a row of this side with this time.
    pub fn is_due(&self, time_ms: i64, floor_ms: i64) -> bool {
        floor_ms > time_ms.saturating_add(self.later_ms)
    }
}

fn millis(setting: &'static str, duration: Duration) -> Result<i64, ConfigError> {
    if duration > DURATION_MAX {
        return fail(setting, format!("`{duration:?}` is more than 3650 days"));
    }
    Ok(duration.as_millis() as i64)
}

/// The key's columns are there, none twice on a side, and the two of a pair are of one kind.
fn check_key(left: &Schema, right: &Schema, on: &[(String, String)]) -> Result<(), ConfigError> {
    const SETTING: &str = "join.on";
    if on.is_empty() || on.len() > KEY_COLUMNS_MAX {
        return fail(SETTING, format!("`{}` pairs of columns; name 1 to {KEY_COLUMNS_MAX}", on.len()));
    }
    for (at, (left_name, right_name)) in on.iter().enumerate() {
        let repeated = |name: &String| ConfigError::RepeatedColumn { setting: SETTING, name: name.clone() };
        let of_kind = |schema: &Schema, name: &String| -> Result<String, ConfigError> {
            let column = &schema.columns()[column_index(schema, SETTING, name)?];
            key_kind(&column.column_type).map_err(|found| ConfigError::ColumnKind {
                setting: SETTING,
                name: name.clone(),
                found,
                wanted: ANY_KEY,
            })
        };
        let kinds = [of_kind(left, left_name)?, of_kind(right, right_name)?];
        if on[..at].iter().any(|(name, _)| name == left_name) {
            return Err(repeated(left_name));
        }
        if on[..at].iter().any(|(_, name)| name == right_name) {
            return Err(repeated(right_name));
        }
        check_enums([
            &left.columns()[column_index(left, SETTING, left_name)?],
            &right.columns()[column_index(right, SETTING, right_name)?],
        ])?;
        if kinds[0] != kinds[1] {
            let [of_left, of_right] = kinds;
            let column = &left.columns()[column_index(left, SETTING, left_name)?];
            let wanted = format!("{:?}", column.column_type.bare());
            return fail(
                SETTING,
                format!(
                    "`{left_name}` of the left side is of kind `{of_left}` and `{right_name}` of the right side of kind `{of_right}`, so no value of one \
                     equals one of the other; cast one of them in a step before the join, as in `select {right_name} = CAST({right_name} AS {wanted})`"
                ),
            );
        }
    }
    Ok(())
}

/// Both columns of a pair, if they are Enums, have the same numbers for the same names: keys are compared by number.
fn check_enums([left, right]: [&Column; 2]) -> Result<(), ConfigError> {
    let [of_left, of_right] = [left, right].map(|column| KeptEnum::within(&column.name, &column.column_type));
    if of_left.iter().zip(&of_right).all(|(left, right)| left.agrees(right)) {
        return Ok(());
    }
    fail(
        "join.on",
        format!(
            "`{0}` of the left side and `{1}` of the right side are Enums in which a name has two numbers, or a number two names, and keys are compared by \
             number; give both one type, or cast both in steps before the join, as in `select {1} = CAST({1} AS String)`",
            left.name, right.name
        ),
    )
}

/// The place among the stored columns of the right side of the one that says whether a version deletes its key.
fn deleted_at(right: &Schema, name: &str, stored: &mut Vec<Stored>) -> Result<usize, ConfigError> {
    const SETTING: &str = "join.deleted";
    let column = &right.columns()[column_index(right, SETTING, name)?];
    let form = column.column_type.arrow();
    if form != DataType::Boolean {
        return Err(ConfigError::ColumnKind {
            setting: SETTING,
            name: name.to_owned(),
            found: forms::words(&column.column_type),
            wanted: "a condition, which is true or false",
        });
    }
    Ok(stored_at(stored, column))
}

/// What rows of a side without a match are beside the output, and their columns among the stored ones.
fn aside(
    (schema, side): (&Schema, JoinSide),
    config: &JoinConfig,
    stored: &mut Vec<Stored>,
) -> Result<Option<Aside>, ConfigError> {
    const SETTING: &str = "join.unmatched";
    let names = &config.unmatched[side as usize];
    if names.is_empty() {
        return Ok(None);
    }
    if config.kind.keeps(side) {
        let (word, kind) = (side.word(), config.kind.word());
        return fail(
            SETTING,
            format!("with the kind `{kind}` {word} rows without a match are in the output"),
        );
    }
    let (mut at, mut output) = (Vec::with_capacity(names.len()), Vec::<Column>::with_capacity(names.len()));
    for name in names {
        let column = &schema.columns()[column_index(schema, SETTING, name)?];
        if output.iter().any(|other| other.name == *name) {
            return Err(ConfigError::RepeatedColumn { setting: SETTING, name: name.clone() });
        }
        at.push(stored_at(stored, column));
        output.push(column.clone());
    }
    Ok(Some(Aside { at, output: Schema::new(output) }))
}

/// The place of a column among the stored ones, with which it is from now on.
fn stored_at(stored: &mut Vec<Stored>, column: &Column) -> usize {
    let known = stored.iter().position(|one| one.name == column.name);
    known.unwrap_or_else(|| {
        let (name, is_optional) = (column.name.clone(), column.is_optional());
        let enums = KeptEnum::within(&name, &column.column_type);
        let (form, words) = (column.column_type.arrow(), forms::words(&column.column_type));
        stored.push(Stored { name, form, words, enums, is_optional });
        stored.len() - 1
    })
}

/// The column of the other side that takes the place of a column of the key where the column's own side has no row.
fn partner<'a>(config: &'a JoinConfig, column: &JoinColumn) -> Option<&'a str> {
    if !config.kind.keeps(column.side.other()) {
        return None;
    }
    let pair = config.on.iter().find(|(left, right)| match column.side {
        JoinSide::Left => *left == column.from,
        JoinSide::Right => *right == column.from,
    });
    pair.map(|(left, right)| match column.side {
        JoinSide::Left => right.as_str(),
        JoinSide::Right => left.as_str(),
    })
}

/// The place of a column that is known to be there.
fn name_at(schemas: [&Schema; 2], side: JoinSide, name: &str) -> usize {
    schemas[side as usize].index_of(name).expect("the columns of the key and of the output were looked up")
}

/// A column of the output as its table sees it.
fn output_column(
    schema: &Schema,
    column: &JoinColumn,
    (kind, partner): (JoinKind, Option<&Column>),
) -> Result<Column, ConfigError> {
    const SETTING: &str = "join.columns";
    let found = &schema.columns()[column_index(schema, SETTING, &column.from)?];
    let may_be_absent = match partner {
        None => kind.keeps(column.side.other()),
        Some(partner) if partner.column_type.arrow() != found.column_type.arrow() => {
            let (own, name) = (&column.from, &partner.name);
            return fail(
                SETTING,
                format!(
                    "`{own}` and `{name}` are equal by `on` but of different types, and without a match, one column's value fills the other; cast one of them in a \
                     step before the join"
                ),
            );
        }
        Some(partner) if !holds(&found.column_type, &partner.column_type) => {
            let (own, name) = (&column.from, &partner.name);
            return fail(
                SETTING,
                format!(
                    "without a match, `{own}` has the value of `{name}`, which is equal by `on`, and its type does not hold every value of that one; give both the \
                     same type under `fields` of their inputs"
                ),
            );
        }
        Some(partner) => partner.is_optional(),
    };
    // A column's DEFAULT is the input's business: here a null is a null.
    if !may_be_absent && (found.column_type.is_nullable() || !found.is_optional()) {
        return Ok(Column::new(&column.name, found.column_type.clone()));
    }
    if matches!(found.column_type.bare(), ColumnType::Array(_) | ColumnType::Map(..)) {
        return Err(ConfigError::ColumnKind {
            setting: SETTING,
            name: column.from.clone(),
            found: forms::words(&found.column_type),
            wanted: "a column that can be NULL where its side has no row, or a kind of join in which its side always has one",
        });
    }
    Ok(Column::new(&column.name, nullable(&found.column_type)))
}

/// Whether a column of type `own` holds every value of `other`, a type of the same kind of key and the same form: a Date does not hold every day of a Date32.
fn holds(own: &ColumnType, other: &ColumnType) -> bool {
    match (own.bare(), other.bare()) {
        (ColumnType::Array(own), ColumnType::Array(other)) => return holds(own, other),
        (ColumnType::Map(own_key, own), ColumnType::Map(other_key, other)) => {
            return holds(own_key, other_key) && holds(own, other);
        }
        _ => {}
    }
    let [of_own, of_other] = [own, other].map(|of| KeptEnum::within("", of));
    match (of_own.first(), of_other.first()) {
        (Some(own), Some(other)) => other.names.iter().all(|name| own.names.contains(name)),
        _ => matches!(conversion(other, own), Conversion::Same | Conversion::Lossless),
    }
}

fn nullable(column_type: &ColumnType) -> ColumnType {
    match column_type {
        ColumnType::LowCardinality(inner) => ColumnType::LowCardinality(Box::new(nullable(inner))),
        ColumnType::Nullable(_) => column_type.clone(),
        other => ColumnType::Nullable(Box::new(other.clone())),
    }
}

/// The words that the state of a side is known by: its key's kinds and the types of what it keeps.
fn side_words(side: &SidePlan) -> String {
    let key: Vec<String> = side.keyer.columns().iter().map(|c| format!("{} {}", c.name, c.kind)).collect();
    let stored = |c: &Stored| {
        let null = if c.is_optional { " or null" } else { "" };
        format!("{} {}{null}", c.name, c.words)
    };
    let columns: Vec<String> = side.columns.iter().map(stored).collect();
    format!("key `{}` columns `{}`", key.join(", "), columns.join(", "))
}
