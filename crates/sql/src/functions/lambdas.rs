//! Columns that a function without a name reads, with a bound on how much of them is repeated.
//!
//! `array_filter(tags, tag -> contains(body, tag))` is evaluated with a row for each item of the array, and the columns beside it (here `body`) are
//! repeated for each. So a record with many items and a long text would fill the memory with its square. Owns that bound, which is that of
//! `UNNEST`. Does not own what the function makes of an item (`bounded`).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, FieldRef, Schema};
use datafusion_common::{DataFusionError, exec_err};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::expressions::{Column, LambdaExpr};
use datafusion_physical_expr::utils::collect_columns;
use datafusion_physical_expr::{HigherOrderFunctionExpr, PhysicalExpr};

use crate::sizes;

/// The call with the bound, if it is one of a function without a name that reads columns.
pub(crate) fn bounded(expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
    let call = expr.downcast_ref::<HigherOrderFunctionExpr>()?;
    let mut reads: Vec<usize> = Vec::new();
    for arg in call.args() {
        if let Some(lambda) = arg.downcast_ref::<LambdaExpr>() {
            reads.extend(collect_columns(lambda.body()).iter().map(Column::index));
        }
    }
    reads.sort_unstable();
    reads.dedup();
    let list = call.args().first().filter(|_| !reads.is_empty())?;
    Some(Arc::new(Bounded { call: Arc::clone(expr), list: Arc::clone(list), reads }))
}

#[derive(Debug)]
struct Bounded {
    call: Arc<dyn PhysicalExpr>,
    /// The array whose items it is called with.
    list: Arc<dyn PhysicalExpr>,
    /// Columns of the batch that it reads beside the items.
    reads: Vec<usize>,
}

impl PartialEq for Bounded {
    fn eq(&self, other: &Self) -> bool {
        self.call.as_ref() == other.call.as_ref()
    }
}

impl Eq for Bounded {}

impl Hash for Bounded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.call.hash(state);
    }
}

impl fmt::Display for Bounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.call.fmt(f)
    }
}

impl PhysicalExpr for Bounded {
    fn data_type(&self, schema: &Schema) -> Result<DataType, DataFusionError> {
        self.call.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool, DataFusionError> {
        self.call.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef, DataFusionError> {
        self.call.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue, DataFusionError> {
        let lists = self.list.evaluate(batch)?.into_array(batch.num_rows())?;
        // Parameters of a function around this one stand behind the columns.
        let reads: Vec<&ArrayRef> = self.reads.iter().filter_map(|at| batch.columns().get(*at)).collect();
        refuse_too_much(&lists, &reads)?;
        self.call.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.call]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>, DataFusionError> {
        let Some(call) = children.pop() else { return Ok(self) };
        Ok(bounded(&call).unwrap_or(call))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.call.fmt_sql(f)
    }
}

/// Refuses a record whose items would repeat too much of its columns, and a batch that has to be divided.
fn refuse_too_much(lists: &ArrayRef, reads: &[&ArrayRef]) -> Result<(), DataFusionError> {
    let Some(lists) = lists.as_list_opt::<i32>() else { return Ok(()) };
    let mut of_batch = 0_usize;
    for row in 0..lists.len() {
        let items: Range<usize> =
            lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize;
        if items.len() < 2 {
            continue;
        }
        let repeated: usize = reads.iter().map(|column| sizes::bytes(column, row..row + 1)).sum();
        let growth = (items.len() - 1).saturating_mul(repeated);
        let own = repeated.saturating_add(sizes::bytes(lists.values(), items.clone()));
        let bound = sizes::growth_max(own);
        if growth > bound {
            return exec_err!(
                "a function over `{}` items would repeat `{growth}` bytes of other columns; the limit for a record of `{own}` bytes is `{bound}`; compute what it \
                 needs of these columns in an earlier step",
                items.len()
            );
        }
        of_batch = of_batch.saturating_add(growth);
    }
    if of_batch > sizes::BATCH_BYTES_MAX {
        return exec_err!("the functions over items would repeat `{of_batch}` bytes of other columns");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
