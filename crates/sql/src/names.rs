//! What names mean: the functions of the dialect, and those that it refuses.
//!
//! Owns the list of functions and the reason for each that is left out. Does not own columns (`compile`).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use arrow_schema::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DataFusionError, TableReference, plan_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::planner::{ContextProvider, ExprPlanner, TypePlanner};
use datafusion_expr::{AggregateUDF, Documentation, Expr, HigherOrderUDF, ScalarUDF, TableSource, WindowUDF};
use datafusion_functions::core::planner::CoreFunctionPlanner;
use datafusion_functions::datetime::planner::DatetimeFunctionPlanner;
use datafusion_functions::unicode::planner::UnicodeFunctionPlanner;
use datafusion_functions_nested::planner::{FieldAccessPlanner, NestedFunctionPlanner};

use crate::functions::{self, bounded::bounded};
use crate::types::Types;

const CLOCK: &str = "it reads the clock, and a replay after a crash must give the same rows; use the column `_ingested` (when the \
    record was read) or `_timestamp` (when it was written)";
const CHANCE: &str = "it returns a different value each time, and a replay after a crash must give the same rows; for a stable value hash a \
    column, as in `md5(_key)`";
const SERVER: &str =
    "it describes the server, and a replay may run on another one; compute it in the table, with a DEFAULT";
const INTERNAL: &str = "it exposes engine internals";
const AGGREGATE: &str = "it needs many rows, and a step without state sees one; use the step `window`, or a materialized view of the \
    table";
const WINDOW: &str =
    "it needs the rows around this one, and a step without state sees one; compute it in the table";

/// Functions that exist elsewhere, and why not here.
const REFUSED: &[(&str, &str)] = &[
    ("now", CLOCK),
    ("current_timestamp", CLOCK),
    ("current_date", CLOCK),
    ("today", CLOCK),
    ("current_time", CLOCK),
    ("localtimestamp", CLOCK),
    ("localtime", CLOCK),
    ("now64", CLOCK),
    ("nowinblock", CLOCK),
    ("now_in_block", CLOCK),
    ("yesterday", CLOCK),
    ("tomorrow", CLOCK),
    ("curdate", CLOCK),
    ("curtime", CLOCK),
    ("sysdate", CLOCK),
    ("getdate", CLOCK),
    ("timeofday", CLOCK),
    ("unix_timestamp", CLOCK),
    ("clock_timestamp", CLOCK),
    ("statement_timestamp", CLOCK),
    ("transaction_timestamp", CLOCK),
    ("utctimestamp", CLOCK),
    ("utc_timestamp", CLOCK),
    ("utc_date", CLOCK),
    ("utc_time", CLOCK),
    ("getutcdate", CLOCK),
    ("random", CHANCE),
    ("rand", CHANCE),
    ("uuid", CHANCE),
    ("gen_random_uuid", CHANCE),
    ("generateuuidv4", CHANCE),
    ("rand32", CHANCE),
    ("rand64", CHANCE),
    ("randcanonical", CHANCE),
    ("randconstant", CHANCE),
    ("randuniform", CHANCE),
    ("randnormal", CHANCE),
    ("randlognormal", CHANCE),
    ("randbinomial", CHANCE),
    ("randexponential", CHANCE),
    ("randpoisson", CHANCE),
    ("randomstring", CHANCE),
    ("randomfixedstring", CHANCE),
    ("randomprintableascii", CHANCE),
    ("randomstringutf8", CHANCE),
    ("fuzzbits", CHANCE),
    ("uuidv4", CHANCE),
    ("uuidv7", CHANCE),
    ("uuid_generate_v4", CHANCE),
    ("newid", CHANCE),
    ("generateuuidv7", CHANCE),
    ("generateulid", CHANCE),
    ("generatesnowflakeid", CHANCE),
    ("setseed", CHANCE),
    ("hostname", SERVER),
    ("uptime", SERVER),
    ("serveruuid", SERVER),
    ("currentdatabase", SERVER),
    ("current_database", SERVER),
    ("currentuser", SERVER),
    ("current_user", SERVER),
    ("fqdn", SERVER),
    ("tcpport", SERVER),
    ("timezone", SERVER),
    ("version", "it changes with the program, and a replay after an update must give the same rows"),
    ("input_file_name", INTERNAL),
    ("file_row_index", INTERNAL),
    ("arrow_cast", "write `CAST(x AS Type)`"),
    ("arrow_try_cast", "write `TRY_CAST(x AS Type)`"),
    ("cast_to_type", "write `CAST(x AS Type)`"),
    ("try_cast_to_type", "write `TRY_CAST(x AS Type)`"),
    ("arrow_typeof", INTERNAL),
    ("arrow_field", INTERNAL),
    ("arrow_metadata", INTERNAL),
    ("with_metadata", INTERNAL),
    ("union_extract", INTERNAL),
    ("union_tag", INTERNAL),
    ("count", AGGREGATE),
    ("sum", AGGREGATE),
    ("avg", AGGREGATE),
    (
        "min",
        "it needs many rows, and a step without state sees one; for the least of several values write `least(a, b)`",
    ),
    (
        "max",
        "it needs many rows, and a step without state sees one; for the greatest of several values write `greatest(a, b)`",
    ),
    ("mean", AGGREGATE),
    ("median", AGGREGATE),
    ("stddev", AGGREGATE),
    ("var", AGGREGATE),
    ("array_agg", AGGREGATE),
    ("string_agg", AGGREGATE),
    ("first_value", AGGREGATE),
    ("last_value", AGGREGATE),
    ("approx_distinct", AGGREGATE),
    ("uniq", AGGREGATE),
    ("any", AGGREGATE),
    ("row_number", WINDOW),
    ("rank", WINDOW),
    ("dense_rank", WINDOW),
    ("lag", WINDOW),
    ("lead", WINDOW),
    ("rownumberinallblocks", WINDOW),
    ("rownumberinblock", WINDOW),
    ("blocknumber", WINDOW),
    ("neighbor", WINDOW),
    ("runningdifference", WINDOW),
    ("ntile", WINDOW),
    ("nth_value", WINDOW),
    ("percent_rank", WINDOW),
    ("cume_dist", WINDOW),
    ("leadinframe", WINDOW),
    ("laginframe", WINDOW),
];

/// What a function's name stands for.
pub(crate) enum Function {
    Known,
    /// Why it is refused.
    Refused(&'static str),
    Unknown,
}

/// Everything that planning asks about names.
pub(crate) struct Names {
    /// By name and by alias, in small letters.
    scalar: BTreeMap<String, Arc<ScalarUDF>>,
    higher: BTreeMap<String, Arc<HigherOrderUDF>>,
    refused: HashMap<&'static str, &'static str>,
    planners: Vec<Arc<dyn ExprPlanner>>,
    options: Arc<ConfigOptions>,
}

/// The functions are the same for every step.
pub(crate) static NAMES: LazyLock<Names> = LazyLock::new(Names::new);

impl Names {
    fn new() -> Self {
        let refused: HashMap<_, _> = REFUSED.iter().copied().collect();
        let mut scalar = BTreeMap::new();
        let defaults = datafusion_functions::all_default_functions();
        let nested = datafusion_functions_nested::all_default_nested_functions();
        for function in defaults.into_iter().chain(nested).map(bounded).chain(functions::all()) {
            let names = std::iter::once(function.name()).chain(function.aliases().iter().map(String::as_str));
            for name in names.filter(|name| !refused.contains_key(name.to_lowercase().as_str())) {
                scalar.insert(name.to_lowercase(), Arc::clone(&function));
            }
        }
        let mut higher = BTreeMap::new();
        for function in datafusion_functions_nested::all_default_higher_order_functions() {
            let names = std::iter::once(function.name()).chain(function.aliases().iter().map(String::as_str));
            names.for_each(|name| {
                higher.insert(name.to_lowercase(), Arc::clone(&function));
            });
        }
        let planners: Vec<Arc<dyn ExprPlanner>> = vec![
            Arc::new(CoreFunctionPlanner::default()),
            Arc::new(NestedFunctionPlanner),
            Arc::new(FieldAccessPlanner),
            Arc::new(DatetimeFunctionPlanner),
            Arc::new(UnicodeFunctionPlanner),
        ];
        let mut options = ConfigOptions::default();
        options.execution.time_zone = Some("UTC".into());
        Self { scalar, higher, refused, planners, options: Arc::new(options) }
    }

    /// What `name`, written in any letters, stands for.
    pub(crate) fn function(&self, name: &str) -> Function {
        let name = name.to_lowercase();
        if let Some(reason) = self.refused.get(name.as_str()) {
            return Function::Refused(reason);
        }
        // `make_map` has no function behind it: it is planned as `map`.
        if self.scalar.contains_key(&name) || self.higher.contains_key(&name) || name == "make_map" {
            return Function::Known;
        }
        Function::Unknown
    }

    /// Every name that may be called, sorted.
    pub(crate) fn functions(&self) -> impl Iterator<Item = &str> {
        self.scalar.keys().chain(self.higher.keys()).map(String::as_str)
    }

    /// DataFusion's functions by name, with their documentation; aliases are left out.
    pub(crate) fn documented(&self) -> impl Iterator<Item = (&str, Option<&Documentation>)> {
        let scalar = self.scalar.iter().filter(|(name, function)| *name == function.name());
        let scalar = scalar.map(|(name, function)| (name.as_str(), function.documentation()));
        let higher = self.higher.iter().filter(|(name, function)| *name == function.name());
        scalar.chain(higher.map(|(name, function)| (name.as_str(), function.documentation())))
    }

    /// The functions that are refused, sorted, and why.
    pub(crate) fn refused(&self) -> BTreeMap<&'static str, &'static str> {
        self.refused.iter().map(|(name, reason)| (*name, *reason)).collect()
    }

    /// Every function with whether it gives the same value for the same arguments, however often and whenever it is called.
    #[cfg(test)]
    pub(crate) fn volatilities(&self) -> impl Iterator<Item = (&str, datafusion_expr::Volatility)> {
        let scalar =
            self.scalar.iter().map(|(name, function)| (name.as_str(), function.signature().volatility));
        let higher =
            self.higher.iter().map(|(name, function)| (name.as_str(), function.signature().volatility));
        scalar.chain(higher)
    }

    /// Settings that functions read: the zone is UTC.
    pub(crate) fn options(&self) -> Arc<ConfigOptions> {
        Arc::clone(&self.options)
    }
}

/// Operators (`a || b`, `EXTRACT`) are planned as calls of DataFusion's functions: of those that stand for them here instead, with their bounds.
pub(crate) fn with_bounds(expr: Expr) -> Result<Expr, DataFusionError> {
    let replaced = expr.transform_up(|node| match node {
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            let known = NAMES.scalar.get(func.name()).filter(|known| known.name() == func.name());
            let func = known.map_or(func, Arc::clone);
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(func, args))))
        }
        other => Ok(Transformed::no(other)),
    });
    Ok(replaced?.data)
}

impl ContextProvider for Names {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>, DataFusionError> {
        plan_err!("there is no table `{name}`; a step reads its own rows")
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.planners
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(Types))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.scalar.get(&name.to_lowercase()).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.higher.get(&name.to_lowercase()).cloned()
    }

    fn get_aggregate_meta(&self, _name: &str) -> Option<Arc<AggregateUDF>> {
        None
    }

    fn get_window_meta(&self, _name: &str) -> Option<Arc<WindowUDF>> {
        None
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        &self.options
    }

    fn udf_names(&self) -> Vec<String> {
        self.scalar.keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.higher.keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udwf_names(&self) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
