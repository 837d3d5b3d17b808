//! Which field of a record fills which column.
//!
//! Owns the tree of keys that is compiled from the schema, and the lookup of a key in it. Does not own values.
//!
//! A column filled by `request.method` has two places in the tree: the key `request.method` of the record itself, and
//! the key `method` inside the object `request`. The flat one wins if a record has both, in whatever order.

use dataflow::Schema;

use super::ConfigError;
use super::scan::DEPTH_MAX;

/// Keys of one object are looked through one by one up to this many; beyond it they are hashed.
const LINEAR_MAX: usize = 4;

/// The keys that a record's object may have, and what to do with each.
#[derive(Debug)]
pub(super) struct Plan {
    /// The objects; the first is the record itself.
    pub nodes: Vec<Node>,
    /// The number of keys in all nodes together.
    pub slots: usize,
    /// The number of states of a walk in all nodes together.
    pub states: usize,
}

/// One object of the record.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Its keys, in the order of the schema.
    pub keys: Vec<Key>,
    /// An open table of places in `keys` (plus one; zero is empty); a power of two long. Empty for few keys.
    table: Vec<u32>,
    /// Every column that is filled from inside this object.
    pub columns: Vec<usize>,
    /// The first of this object's states among those of all: at its start, behind each of its keys, behind unknown ones only.
    pub states: usize,
}

/// One key of an object.
#[derive(Debug)]
pub(super) struct Key {
    name: Box<[u8]>,
    /// The key's number among all keys of all nodes.
    pub slot: usize,
    /// The columns that its value fills.
    pub fills: Vec<Fill>,
    /// The object that its value may be.
    pub child: Option<usize>,
}

/// A column that a key's value fills.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    /// The column's place in the schema.
    pub column: usize,
    /// Which of the column's places in the tree this is.
    pub place: Place,
}

/// Where a column is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The only one.
    Only,
    /// The key with the dots in it; wins over the nested one.
    Flat,
    /// Inside of objects.
    Nested,
}

impl Plan {
    /// The tree for `schema`.
    pub fn new(schema: &Schema) -> Result<Self, ConfigError> {
        let mut plan = Self { nodes: vec![Node::default()], slots: 0, states: 0 };
        for (column, found) in schema.columns().iter().enumerate() {
            let path: Vec<&str> = found.field.split('.').collect();
            if path.len() >= DEPTH_MAX as usize {
                let why = format!("its field has {} parts, more than a record may nest", path.len());
                return Err(ConfigError::Type { column: found.name.clone(), why });
            }
            // A dot at an end or two together name nothing that could be nested.
            let nests = path.len() > 1 && path.iter().all(|part| !part.is_empty());
            let place = if nests { Place::Flat } else { Place::Only };
            let flat = plan.key(0, found.field.as_bytes());
            plan.nodes[0].keys[flat].fills.push(Fill { column, place });
            if nests {
                plan.nest(&path, column);
            }
        }
        for node in &mut plan.nodes {
            node.index();
            node.states = plan.states;
            plan.states += node.unknown() + 1;
        }
        Ok(plan)
    }

    fn nest(&mut self, path: &[&str], column: usize) {
        let (last, parents) = path.split_last().expect("a path has a part");
        let mut node = 0;
        for parent in parents {
            let key = self.key(node, parent.as_bytes());
            node = match self.nodes[node].keys[key].child {
                Some(child) => child,
                None => {
                    self.nodes.push(Node::default());
                    let child = self.nodes.len() - 1;
                    self.nodes[node].keys[key].child = Some(child);
                    child
                }
            };
            self.nodes[node].columns.push(column);
        }
        let key = self.key(node, last.as_bytes());
        self.nodes[node].keys[key].fills.push(Fill { column, place: Place::Nested });
    }

    /// The place of `name` among the keys of `node`, added if it is new.
    fn key(&mut self, node: usize, name: &[u8]) -> usize {
        let keys = &mut self.nodes[node].keys;
        if let Some(place) = keys.iter().position(|k| *k.name == *name) {
            return place;
        }
        keys.push(Key::new(name, self.slots));
        self.slots += 1;
        keys.len() - 1
    }
}

impl Node {
    /// The state of a walk that has met unknown keys only; before it are the object's start and the keys.
    pub fn unknown(&self) -> usize {
        self.keys.len() + 1
    }

    fn index(&mut self) {
        if self.keys.len() <= LINEAR_MAX {
            return;
        }
        let size = (self.keys.len() * 2).next_power_of_two();
        let mut table = vec![0; size];
        for (place, key) in self.keys.iter().enumerate() {
            let mut at = hash(&key.name) & (size - 1);
            while table[at] != 0 {
                at = (at + 1) & (size - 1);
            }
            table[at] = place as u32 + 1;
        }
        self.table = table;
    }

    /// The place of the key with these bytes.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        if self.table.is_empty() {
            return self.keys.iter().position(|k| *k.name == *name);
        }
        let mask = self.table.len() - 1;
        let mut at = hash(name) & mask;
        // The table is at most half full, so an empty place ends every search.
        while let Some(place) = (self.table[at] as usize).checked_sub(1) {
            if *self.keys[place].name == *name {
                return Some(place);
            }
            at = (at + 1) & mask;
        }
        None
    }
}

impl Key {
    fn new(name: &[u8], slot: usize) -> Self {
        Self { name: name.into(), slot, fills: Vec::new(), child: None }
    }

    /// The column that its value fills, if it fills no other and nothing else fills that one.
    pub fn only(&self) -> Option<usize> {
        match (&self.fills[..], self.child) {
            ([Fill { column, place: Place::Only }], None) => Some(*column),
            _ => None,
        }
    }

    /// The key as a message shows it.
    pub fn shown(&self) -> String {
        format!("`{}`", crate::shown::shorten(&self.name))
    }
}

/// A hash of a key's length and its first and last eight bytes. Only the schema's keys are in the tables, so a record
/// cannot make searches long.
fn hash(name: &[u8]) -> usize {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let head = word(&name[..name.len().min(8)]);
    let tail = word(&name[name.len() - name.len().min(8)..]);
    let mixed = (head ^ tail.rotate_left(29) ^ name.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize
}

#[cfg(test)]
mod tests;
