//! The shape of the made-up records of `glassflow`, as options.
//!
//! Owns the division of the counts among publishers, and the refusal of one that leaves a remainder. Does not own the records or the bounds
//! of a workload (`workloads::glassflow`).

use anyhow::bail;
use clap::Args;
use workloads::glassflow::{self, Spec};

/// How many records of which sort.
#[derive(Clone, Debug, Args)]
pub struct Shape {
    /// Distinct records of all publishers together; a multiple of --publishers.
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    pub uniques: u64,

    /// Independent streams of records.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub publishers: u32,

    /// The same seed gives the same records.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Copies from anywhere in a publisher's past, of all publishers together.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub far_duplicates: u64,

    /// Copies of other publishers' records, of all publishers together.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub cross_duplicates: u64,
}

impl Shape {
    /// The workload of that shape.
    ///
    /// # Errors
    /// When the numbers make none.
    pub fn workload(&self) -> anyhow::Result<glassflow::Workload> {
        let publishers = u64::from(self.publishers);
        let share = |what: &str, number: u64| match number.checked_rem(publishers) {
            Some(0) => Ok(number / publishers),
            _ => bail!("`{what}` is `{number}`, which is no multiple of the `{publishers}` publishers"),
        };
        let spec = Spec {
            seed: self.seed,
            publishers: self.publishers,
            uniques: share("uniques", self.uniques)?,
            far_duplicates: share("far duplicates", self.far_duplicates)?,
            cross_duplicates: share("cross duplicates", self.cross_duplicates)?,
            ..Spec::default()
        };
        Ok(glassflow::Workload::new(spec)?)
    }
}
