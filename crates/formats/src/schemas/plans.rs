//! Schemas, compiled for the columns.
//!
//! Owns when a schema is compiled (once, when the first record comes that names it), and which plans are at hand while a block is decoded. Does not own
//! what a plan is: it is the format's.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, PoisonError, RwLock};

use dataflow::RecordBlock;

use super::{SchemaText, Schemas, Writer};
use crate::fault::{Fault, Step};

/// What a schema was compiled to.
#[derive(Debug)]
pub(crate) enum Compiled<P> {
    Plan(P),
    /// No record of it can be read, and why.
    Refused(String),
}

impl<P> Compiled<P> {
    /// The plan, if there is one.
    pub fn plan(&self) -> Option<&P> {
        match self {
            Self::Plan(plan) => Some(plan),
            Self::Refused(_) => None,
        }
    }
}

impl<P> From<Result<P, String>> for Compiled<P> {
    fn from(made: Result<P, String>) -> Self {
        match made {
            Ok(plan) => Self::Plan(plan),
            Err(why) => Self::Refused(why),
        }
    }
}

/// What the records of a block without headers are read by.
pub(crate) enum OfBlock<P> {
    /// The block names no schema.
    Nameless,
    /// The schema's name and what it was compiled to.
    Named(Arc<str>, Arc<Compiled<P>>),
}

impl<P> OfBlock<P> {
    /// The plan, or why a record cannot be read.
    #[inline]
    pub fn plan(&self) -> Step<&P> {
        match self {
            Self::Nameless => Err(Fault::nameless(NAMELESS)),
            Self::Named(name, compiled) => match &**compiled {
                Compiled::Plan(plan) => Ok(plan),
                Compiled::Refused(why) => Err(Fault::schema(name, why)),
            },
        }
    }
}

/// The plans by the number or name of their schema.
#[derive(Debug)]
pub(crate) struct Plans<P, K = u32> {
    schemas: Arc<Schemas<K>>,
    compiled: RwLock<BTreeMap<K, Arc<Compiled<P>>>>,
}

/// What to do about messages without a schema.
const NAMELESS: &str = "the message names no schema: it was produced without one; produce it with a schema of the format, or write the one that it has \
                        as `schema_file`";

impl<P> Plans<P, Arc<str>> {
    /// The plan of all records of a block that names their schema, or why there is none. `make` makes it.
    pub fn of_block(
        &self,
        block: &RecordBlock,
        make: impl FnOnce(&[SchemaText]) -> Result<P, String>,
    ) -> OfBlock<P> {
        let Some(name) = &block.schema else { return OfBlock::Nameless };
        let compiled = self.plan(name, make);
        OfBlock::Named(
            name.clone(),
            compiled.unwrap_or_else(|why| Arc::new(Compiled::Refused(why.to_string()))),
        )
    }
}

impl<P, K: Ord + Clone + Display> Plans<P, K> {
    pub fn new(schemas: Arc<Schemas<K>>) -> Self {
        Self { schemas, compiled: RwLock::default() }
    }

    /// The plan of a schema, which `make` makes of its texts; an error says why none is known yet.
    #[cold]
    pub fn plan(
        &self,
        id: &K,
        make: impl FnOnce(&[SchemaText]) -> Result<P, String>,
    ) -> Result<Arc<Compiled<P>>, Arc<str>> {
        if let Some(known) = self.compiled.read().unwrap_or_else(PoisonError::into_inner).get(id) {
            return Ok(known.clone());
        }
        let texts = match self.schemas.get(id) {
            Some(Writer::Texts(texts)) => texts,
            // Not kept: it may be registered later.
            Some(Writer::Unusable(why)) => return Err(why),
            None => {
                let why = "no usable schema is known for it, nor for many others: look for a producer that names schemas which nobody has registered";
                return Err(why.into());
            }
        };
        let compiled = Arc::new(Compiled::from(make(&texts)));
        self.compiled.write().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), compiled.clone());
        Ok(compiled)
    }
}

/// Plans of the records before, by what those records name: a topic may hold a few kinds of records in turn, so a few are at hand without a lock.
pub(crate) struct Last<K, P> {
    plans: Vec<(K, Arc<Compiled<P>>)>,
    /// The one of the record before.
    at: usize,
}

/// Plans at hand.
const LAST_MAX: usize = 8;

impl<K, P> Default for Last<K, P> {
    fn default() -> Self {
        Self { plans: Vec::new(), at: 0 }
    }
}

impl<K, P> Last<K, P> {
    /// What the record before names, if `is` says that this record names the same.
    #[inline]
    pub fn is_at(&self, is: impl Fn(&K) -> bool) -> bool {
        self.plans.get(self.at).is_some_and(|(known, _)| is(known))
    }

    /// Goes to the plan of what `is` tells from others; `make` makes one that is not at hand.
    #[inline(never)]
    pub fn go(
        &mut self,
        is: impl Fn(&K) -> bool,
        make: impl FnOnce() -> Step<(K, Arc<Compiled<P>>)>,
    ) -> Step<()> {
        if let Some(at) = self.plans.iter().position(|(known, _)| is(known)) {
            self.at = at;
            return Ok(());
        }
        let plan = make()?;
        if self.plans.len() < LAST_MAX {
            self.at = self.plans.len();
            self.plans.push(plan);
        } else {
            self.at = (self.at + 1) % LAST_MAX;
            self.plans[self.at] = plan;
        }
        Ok(())
    }

    /// What was gone to last, and its plan.
    #[inline]
    pub fn here(&self) -> (&K, &Compiled<P>) {
        let (known, compiled) = &self.plans[self.at];
        (known, compiled)
    }
}
