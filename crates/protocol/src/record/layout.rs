//! The columns that frames were made for, as a message.
//!
//! Owns the fields. Does not own which layouts a lane keeps ([`crate::lane`]), nor what a change of columns means for a frame.

use prost::Message;

/// The columns of some frames of a table. Said once, by the first record whose frames have them; frames name it by number.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Layout {
    /// The table's index.
    #[prost(uint32, tag = "1")]
    pub table: u32,
    /// From 1; one number at a time stands for one list of columns.
    #[prost(uint32, tag = "2")]
    pub number: u32,
    /// The columns, in order; at least one.
    #[prost(message, repeated, tag = "3")]
    pub columns: Vec<LayoutColumn>,
}

/// One column of a [`Layout`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LayoutColumn {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its type, as the server writes it.
    #[prost(string, tag = "2")]
    pub type_name: String,
    /// What stands in the table where a record gave no value; empty if nothing does.
    #[prost(string, tag = "3")]
    pub default: String,
    /// True if every record must give a value.
    #[prost(bool, tag = "4")]
    pub is_required: bool,
}
