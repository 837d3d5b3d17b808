//! Which field of a record fills which column.
//!
//! Owns the plan that is compiled from the names of the fields and the columns, and why there is none. Does not own values.

use dataflow::Schema;

use super::ConfigError;
use super::scan::{Dialect, Fields};
use crate::shown::shorten;

/// What is done with the fields of a record.
#[derive(Debug)]
pub(super) struct Plan {
    /// One for each field, in order.
    pub fields: Box<[Fill]>,
    /// Columns that no field fills.
    pub absent: Box<[usize]>,
}

/// What is done with a field.
#[derive(Debug)]
pub(super) enum Fill {
    /// It is stepped over.
    Skip,
    /// It goes to this column.
    One(usize),
    /// It goes to several.
    Several(Box<[usize]>),
}

/// Why a column cannot be filled.
#[derive(Debug)]
pub(super) enum Unfilled {
    /// No field has the name, and the column must have a value.
    NoField { field: String, column: String },
    /// Two fields have it.
    Twice { field: String, column: String },
}

impl From<Unfilled> for ConfigError {
    fn from(unfilled: Unfilled) -> Self {
        match unfilled {
            Unfilled::NoField { field, column } => Self::NoField { field, column },
            Unfilled::Twice { field, column } => Self::FieldTwice { field, column },
        }
    }
}

impl Plan {
    /// The plan for fields of these names.
    pub fn new<N: AsRef<str>>(names: &[N], schema: &Schema) -> Result<Self, Unfilled> {
        let mut fills: Vec<Vec<usize>> = vec![Vec::new(); names.len()];
        let mut absent = Vec::new();
        for (at, column) in schema.columns().iter().enumerate() {
            let mut places = names.iter().enumerate().filter(|(_, name)| name.as_ref() == column.field);
            let unfilled = || (column.field.clone(), column.name.clone());
            match (places.next(), places.next()) {
                (Some((place, _)), None) => fills[place].push(at),
                (Some(_), Some(_)) => {
                    let (field, column) = unfilled();
                    return Err(Unfilled::Twice { field, column });
                }
                (None, _) if column.is_optional() => absent.push(at),
                (None, _) => {
                    let (field, column) = unfilled();
                    return Err(Unfilled::NoField { field, column });
                }
            }
        }
        let fill = |columns: Vec<usize>| match columns[..] {
            [] => Fill::Skip,
            [column] => Fill::One(column),
            _ => Fill::Several(columns.into()),
        };
        Ok(Self { fields: fills.into_iter().map(fill).collect(), absent: absent.into() })
    }

    /// The plan for records below the line `head`; else the column concerned, if it is one, and why there is none.
    pub fn of_header(head: &[u8], dialect: Dialect, schema: &Schema) -> Result<Self, (String, String)> {
        let names = names(head, dialect).map_err(|why| (String::new(), format!("the header: {why}")))?;
        Self::new(&names, schema).map_err(|unfilled| {
            let (field, column, why) = match unfilled {
                Unfilled::NoField { field, column } => {
                    let why = "is not in the header, and its column has neither NULL nor a DEFAULT";
                    (field, column, why)
                }
                Unfilled::Twice { field, column } => (field, column, "is twice in the header"),
            };
            (column, format!("field `{}` {why}", shorten(field.as_bytes())))
        })
    }
}

/// The names in a header.
fn names(head: &[u8], dialect: Dialect) -> Result<Vec<String>, String> {
    let mut fields = Fields::new(head, dialect);
    let mut names = Vec::new();
    let mut scratch = Vec::new();
    loop {
        let field = fields.step().map_err(|fault| fault.sentence(None))?;
        let Some(field) = field else { return Ok(names) };
        names.push(field.text(&mut scratch).map_err(|fault| fault.sentence(None))?.to_owned());
    }
}
