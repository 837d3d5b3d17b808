//! The columns by the parts of their fields' paths, as formats with records inside records are planned.
//!
//! Owns how a dotted name is divided. Does not own what stands at a path: that is each format's.

use std::collections::BTreeMap;

use dataflow::Schema;

/// Parts of a field's path. A column's field comes from a pipeline's file, and plans are walked by recursion.
const PATH_PARTS_MAX: usize = 64;

/// The columns at a path, and those below it.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// The columns that are filled from here, by their places in the schema.
    pub columns: Vec<usize>,
    /// What is below, by the next part of the path.
    pub children: BTreeMap<String, Tree>,
}

impl Tree {
    /// That of the columns of `schema`.
    ///
    /// # Errors
    /// A column whose path is too long, and why that is refused.
    pub fn of(schema: &Schema) -> Result<Self, (String, String)> {
        let mut tree = Self::default();
        for (column, found) in schema.columns().iter().enumerate() {
            let parts: Vec<_> = found.field.split('.').collect();
            if parts.len() > PATH_PARTS_MAX {
                let why = format!("its field has {} parts, more than {PATH_PARTS_MAX}", parts.len());
                return Err((found.name.clone(), why));
            }
            let mut node = &mut tree;
            for part in parts {
                node = node.children.entry(part.to_owned()).or_default();
            }
            node.columns.push(column);
        }
        Ok(tree)
    }

    /// Whether no column is at it or below.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty() && self.children.is_empty()
    }

    /// Every column in it.
    pub fn all(&self) -> Vec<usize> {
        let below = self.children.values().flat_map(Tree::all);
        self.columns.iter().copied().chain(below).collect()
    }
}
