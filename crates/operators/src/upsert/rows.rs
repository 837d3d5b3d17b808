//! Rows as bytes, in a form that is read though the table has other columns since.
//!
//! Owns the layouts by which rows were written, and the way back into the columns that the table has now. Does not own the bytes of a row, which are those of a
//! window's key ([`crate::window::key`]): a Float keeps its number (-0 is 0), a Map its entries in the order of their keys.
//!
//! | a column                        | of a row that was kept before                        |
//! |---------------------------------|------------------------------------------------------|
//! | is as it was, or is wider       | its value                                            |
//! | was added since, also one of that name behind another that was dropped | NULL, its DEFAULT, or the zero of its type |
//! | was dropped since               | –                                                    |
//! | is of another kind of type, or an Enum without a name that it had | refused at the start: no value of it is known |
//! | is narrower than a value        | refused at the seal that needs it                    |
//!
//! Two columns of one name are told apart by a layout without it that was sealed between them.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch, make_array};
use arrow_data::ArrayData;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, Schema as ArrowSchema, SchemaRef};
use dataflow::{Column, ColumnType, KeptEnum, Schema, StateError};

use crate::dedup::key::key_kind;
use crate::mapping::absent::Instead;
use crate::window::key::Keys;
use crate::window::values::Form;

/// Layouts of a state at the most: one for each change of a table's columns.
pub(super) const LAYOUTS_MAX: usize = 4_096;

/// The form of rows with these columns: as the schema says, or Binary where a text is not UTF-8.
pub(super) fn arrow(schema: &Schema, columns: &[ArrayRef]) -> SchemaRef {
    let fields = schema.arrow().fields().iter().zip(columns);
    let field = fields.map(|(field, column)| {
        field
            .as_ref()
            .clone()
            .with_data_type(column.data_type().clone())
            .with_nullable(column.null_count() > 0 || field.is_nullable())
    });
    Arc::new(ArrowSchema::new(field.collect::<Vec<_>>()))
}

/// The form in which values of a type are kept; `None` if none is.
pub(super) fn form(column_type: &ColumnType) -> Option<Form> {
    kind(column_type).map(|(_, form)| form)
}

/// What tells values of two types apart, and their form.
fn kind(column_type: &ColumnType) -> Option<(String, Form)> {
    match column_type.bare() {
        ColumnType::Json { .. } => return Some(("json".to_owned(), Form::Bytes)),
        // Both are kept in 64 bits.
        ColumnType::Float32 | ColumnType::Float64 => return Some(("float".to_owned(), Form::Float)),
        _ => {}
    }
    let kind = key_kind(column_type).ok()?;
    Some((kind, Form::of(column_type).unwrap_or(Form::Bytes)))
}

/// A column of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub name: String,
    pub kind: String,
    pub form: Form,
    /// Whether there is a byte in front that is 1 for a null.
    pub is_nullable: bool,
    /// How many columns of this name there were before.
    pub generation: u32,
    /// The names and numbers of the Enums within, whose numbers are kept.
    pub enums: Vec<Vec<(String, i16)>>,
}

impl Kept {
    fn of(column: &Column, generation: u32) -> Self {
        let (kind, form) = kind(&column.column_type).expect("the step has looked at all columns");
        let within = KeptEnum::within(&column.name, &column.column_type);
        let names = |one: KeptEnum| one.names.into_iter().map(|(name, number)| (name.to_string(), number));
        Self {
            name: column.name.clone(),
            kind,
            form,
            is_nullable: column.is_optional(),
            generation,
            enums: within.into_iter().map(|one| names(one).collect()).collect(),
        }
    }

    /// What a value that was kept so has lost in the column of now; `None` if nothing.
    fn loses(&self, now: &Self) -> Option<(String, String)> {
        if self.kind != now.kind || self.form != now.form || self.enums.len() != now.enums.len() {
            let was = format!("the column `{}` as {}", self.name, self.kind);
            return Some((was, format!("it as {}", now.kind)));
        }
        let mut pairs = self.enums.iter().zip(&now.enums);
        pairs.find_map(|(was, now)| {
            let (name, number) = was.iter().find(|one| !now.contains(one))?;
            Some((
                format!("`{name}` as {number} of the Enum of column `{}`", self.name),
                "no such name with that number".to_owned(),
            ))
        })
    }

    /// The column as keys have it, with the type that it has now if there is one.
    fn key_column(&self, now: Option<&Column>) -> Column {
        let column_type = match now.map(|now| now.column_type.bare()) {
            Some(ColumnType::Json { .. }) => ColumnType::String,
            Some(bare) => bare.clone(),
            // Nobody reads it: what counts is how many bytes it takes.
            None => match self.form {
                Form::Int => ColumnType::Int64,
                Form::UInt => ColumnType::UInt64,
                Form::Float => ColumnType::Float64,
                Form::Wide => ColumnType::Decimal { precision: 38, scale: 0 },
                Form::Bytes => ColumnType::String,
            },
        };
        Column { default: self.is_nullable.then(String::new), ..Column::new(&self.name, column_type) }
    }
}

/// How rows of a layout are read into the columns of now.
struct Reading {
    keys: Keys,
    /// For each column of the table the place in the layout.
    places: Vec<Option<usize>>,
}

/// The layouts of a state; the last is that of the table now, and is sealed with the first rows that have it.
pub(super) struct Layouts {
    table: Schema,
    sign: usize,
    own: Vec<Kept>,
    known: Vec<Vec<Kept>>,
    readings: Vec<Reading>,
    /// How many of them seals have.
    sealed: usize,
    writer: Keys,
}

impl Layouts {
    /// The layout of this table alone, which no seal has. The column `sign` is not kept.
    pub fn of(table: &Schema, sign: usize) -> Self {
        let mut layouts = Self {
            table: table.clone(),
            sign,
            own: Vec::new(),
            known: Vec::new(),
            readings: Vec::new(),
            sealed: 0,
            writer: Keys::new(&[]).expect("no column is no key"),
        };
        layouts.renew();
        layouts
    }

    /// What is known has changed: which columns of the table are the same as before.
    fn renew(&mut self) {
        let columns = self.table.columns().iter().enumerate().filter(|(at, _)| *at != self.sign);
        self.own = columns.map(|(_, column)| Kept::of(column, self.generation(&column.name))).collect();
        self.writer = self.reading(&self.own).expect("a layout is read by itself").keys;
    }

    /// How many columns of this name there were before that of now.
    fn generation(&self, name: &str) -> u32 {
        let in_layout =
            |layout: &Vec<Kept>| layout.iter().find(|kept| kept.name == name).map(|kept| kept.generation);
        match self.known.last().map(in_layout) {
            Some(Some(last)) => last,
            _ => self.known.iter().filter_map(in_layout).max().map_or(0, |before| before.saturating_add(1)),
        }
    }

    /// The number of the table's layout.
    ///
    /// # Errors
    /// When the table has had too many.
    pub fn now(&mut self) -> Result<u32, String> {
        // Not an earlier one that is the same: the order of layouts tells which column is which.
        if self.known.last() == Some(&self.own) {
            return Ok(self.known.len() as u32 - 1);
        }
        if self.known.len() == LAYOUTS_MAX {
            return Err(format!(
                "the table has had other columns {LAYOUTS_MAX} times since the first row was kept; nothing of this batch is sealed, and nothing is lost. Start once with \
                 `--new-state upsert --yes`: what comes later takes no row from before back"
            ));
        }
        self.readings.push(self.reading(&self.own).expect("a layout is read by itself"));
        self.known.push(self.own.clone());
        Ok(self.known.len() as u32 - 1)
    }

    /// The layouts that are to be sealed with the rows that came.
    pub fn unsealed(&mut self) -> (usize, &[Vec<Kept>]) {
        let from = std::mem::replace(&mut self.sealed, self.known.len());
        (from, &self.known[from..])
    }

    /// All of them.
    pub fn sealed(&self) -> &[Vec<Kept>] {
        &self.known[..self.sealed]
    }

    /// Takes layouts of a seal, of which the first has this number.
    ///
    /// # Errors
    /// When others were expected, there are too many, or a column is of another kind now.
    pub fn add(&mut self, (from, layouts): (usize, Vec<Vec<Kept>>)) -> Result<(), StateError> {
        if from != self.known.len() || from + layouts.len() > LAYOUTS_MAX {
            return Err(StateError::Damaged(
                "an upsert has layouts of rows that do not follow one another".to_owned(),
            ));
        }
        if layouts.is_empty() {
            return Ok(());
        }
        self.known.extend(layouts);
        self.sealed = self.known.len();
        self.renew();
        // Which columns are those of now follows from the last of them.
        self.readings = self.known.iter().map(|layout| self.reading(layout)).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn reading(&self, layout: &[Kept]) -> Result<Reading, StateError> {
        let now = |kept: &Kept| {
            let own = self.own.iter().find(|own| own.name == kept.name)?;
            let column = &self.table.columns()[self.table.index_of(&kept.name)?];
            (own.generation == kept.generation).then_some((own, column))
        };
        for (kept, (own, _)) in layout.iter().filter_map(|kept| Some((kept, now(kept)?))) {
            if let Some((was, now)) = kept.loses(own) {
                let way_out = "give the column the type that it had".to_owned();
                return Err(StateError::Configured { was, now, way_out });
            }
        }
        let columns: Vec<Column> =
            layout.iter().map(|kept| kept.key_column(now(kept).map(|(_, column)| column))).collect();
        let keys = Keys::new(&columns)
            .ok_or_else(|| StateError::Damaged("an upsert has a layout of no rows".to_owned()))?;
        let place =
            |column: &Column| layout.iter().position(|kept| kept.name == column.name && now(kept).is_some());
        let mut places: Vec<Option<usize>> = self.table.columns().iter().map(place).collect();
        places[self.sign] = None;
        Ok(Reading { keys, places })
    }

    /// Rows of the table as bytes.
    ///
    /// # Errors
    /// When a column is of another form, or the bytes of a batch are too many.
    pub fn encode(&self, rows: &RecordBatch) -> Result<BinaryArray, String> {
        let encoded = self.writer.encode(rows)?;
        Ok((0..rows.num_rows()).map(|row| Some(encoded.get(row))).collect())
    }

    /// Rows, each with the number of its layout, as columns of the table, whose sign means nothing: a batch for each layout, and no batch without rows.
    ///
    /// # Errors
    /// When bytes are no row, or a value does not fit the type that its column has now.
    pub fn decode<'a>(
        &self,
        rows: impl Iterator<Item = (u32, &'a [u8])>,
    ) -> Result<Vec<Vec<ArrayRef>>, String> {
        let mut by_layout: Vec<Vec<&[u8]>> = vec![Vec::new(); self.readings.len()];
        for (layout, row) in rows {
            let reading = self.readings.get(layout as usize);
            if reading.is_none_or(|reading| !reading.keys.is_key(row)) {
                return Err("the state holds a row that is none; restore the store from a backup, nothing was guessed".to_owned());
            }
            by_layout[layout as usize].push(row);
        }
        let all = self.readings.iter().zip(by_layout).filter(|(_, rows)| !rows.is_empty());
        all.map(|(reading, rows)| self.columns(reading, &rows)).collect()
    }

    fn columns(&self, reading: &Reading, rows: &[&[u8]]) -> Result<Vec<ArrayRef>, String> {
        let decoded = reading.keys.decode(rows.iter().copied()).map_err(|name| {
            format!(
                "a row that was kept has a value in column `{name}` that does not fit the type that the column has now; nothing of this batch is sealed, and nothing is \
                 lost. Give the column a type that holds it (`ALTER TABLE … MODIFY COLUMN`)"
            )
        })?;
        let of = |(column, place): (&Column, &Option<usize>)| {
            let none = || arrow_array::new_null_array(&column.column_type.arrow(), rows.len());
            let values = place.map_or_else(none, |at| decoded[at].clone());
            // The DEFAULT of an Array or a Map, for which no null can stand.
            let values = Instead::of(column).fill(values).map_err(|error| error.to_string())?;
            if values.null_count() > 0 && !column.is_optional() { without_nulls(&values) } else { Ok(values) }
        };
        self.table.columns().iter().zip(&reading.places).map(of).collect()
    }
}

/// The zero of the type in place of each null.
fn without_nulls(values: &ArrayRef) -> Result<ArrayRef, String> {
    let zero = ArrayData::new_null(values.data_type(), 1).into_builder().nulls(None).build();
    let zero = make_array(zero.map_err(|error| error.to_string())?);
    let place = |row: usize| if values.is_null(row) { (1, 0) } else { (0, row) };
    let places: Vec<(usize, usize)> = (0..values.len()).map(place).collect();
    arrow_select::interleave::interleave(&[values.as_ref(), zero.as_ref()], &places)
        .map_err(|error| error.to_string())
}

/// Values of a column as bytes that compare as the values do.
pub(super) struct Ordered {
    name: String,
}

impl Ordered {
    pub fn of(name: &str) -> Self {
        Self { name: name.to_owned() }
    }

    /// The bytes of each row.
    ///
    /// # Errors
    /// When the column is missing, or of a form that cannot be compared.
    pub fn encode(&self, rows: &RecordBatch) -> Result<Vec<Box<[u8]>>, String> {
        let column = rows
            .column_by_name(&self.name)
            .ok_or_else(|| format!("a batch has no column `{}`", self.name))?;
        // Of numbers of every width: a column that becomes wider keeps its order.
        let column = match column.data_type() {
            DataType::Int8 | DataType::Int16 | DataType::Int32 => arrow_cast::cast(column, &DataType::Int64),
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => {
                arrow_cast::cast(column, &DataType::UInt64)
            }
            DataType::Utf8 => arrow_cast::cast(column, &DataType::Binary),
            _ => Ok(column.clone()),
        };
        let fail = |error: arrow_schema::ArrowError| format!("versions cannot be compared: {error}");
        let column = column.map_err(fail)?;
        let converter = RowConverter::new(vec![SortField::new(column.data_type().clone())]).map_err(fail)?;
        let encoded = converter.convert_columns(&[column]).map_err(fail)?;
        Ok((0..encoded.num_rows()).map(|row| encoded.row(row).data().into()).collect())
    }
}
