//! A syntax tree to a typed expression.
//!
//! Owns the order of the work and the place of a fault: the smallest expression within the text that is wrong by itself. Does not own the
//! rules (`exact` and `canonical` for types, `names` for functions) nor the evaluation (`program`).
//!
//! 1. Names: every column exists, every function is known and allowed.
//! 2. DataFusion plans the tree.
//! 3. Constants take the text (`canonical`) or the type (`exact`) of what they stand beside.
//! 4. DataFusion inserts casts; those that can lose something are refused (`exact`).
//! 5. Arithmetic on constants is done, so that `1 / 0` is a fault now and not a reject for every record; so are regular expressions compiled.
//! 6. What DataFusion would simplify to something else is written otherwise (`exact`).
//! 7. DataFusion simplifies; a call of constants that has no value is a fault too, and a unit, a format or a time zone that no time has a value with.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use dataflow::Schema;
use datafusion_common::{DFSchema, DataFusionError};
use datafusion_expr::simplify::SimplifyContext;
use datafusion_expr::{Expr, ExprSchemable};
use datafusion_optimizer::simplify_expressions::ExprSimplifier;
use datafusion_sql::planner::{ParserOptions, PlannerContext, SqlToRel};
use datafusion_sql::sqlparser::ast::{
    self, AccessExpr, DuplicateTreatment, Expr as Written, FunctionArgumentClause, FunctionArguments, Ident,
    ObjectNamePart, Value, Visit, VisitMut, Visitor, VisitorMut,
};

use crate::canonical::canonical;
use crate::fault::{Fault, Misnamed, nearest};
use crate::kinds::{Kinds, refuse_casts_of_names};
use crate::names::{Function, NAMES, with_bounds};
use crate::text::Text;
use crate::{exact, types};

/// What expressions are planned against.
pub(crate) struct Scope {
    /// The input's columns as expressions see them.
    pub(crate) schema: Arc<DFSchema>,
    /// Those of them that hold UUIDs, addresses and Enums.
    kinds: Kinds,
    /// Names that a column may be qualified with: `input.host`.
    tables: Vec<String>,
}

impl Scope {
    /// The columns of `input`, which may be qualified with one of `tables`.
    pub(crate) fn new(input: &Schema, tables: Vec<String>) -> Result<Self, Fault> {
        let fields = input.columns().iter().zip(input.arrow().fields()).map(|(column, field)| {
            arrow_schema::Field::new(&column.name, types::operand(&column.column_type), field.is_nullable())
        });
        let schema = DFSchema::from_unqualified_fields(fields.collect(), Default::default())
            .map_err(|error| Fault::planning(&error))?;
        Ok(Self { schema: Arc::new(schema), kinds: Kinds::new(input), tables })
    }

    /// Whether columns may be qualified with this name.
    pub(crate) fn is_table(&self, name: &str) -> bool {
        self.tables.iter().any(|table| table == name)
    }

    fn has(&self, column: &str) -> bool {
        self.columns().any(|name| name == column)
    }

    fn columns(&self) -> impl Iterator<Item = &str> {
        self.schema.fields().iter().map(|field| field.name().as_str())
    }
}

/// An expression that was typed and simplified.
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    /// The columns that were written, also those that simplifying left nothing of: the text is compiled again over the columns that it reads.
    pub(crate) reads: BTreeSet<String>,
    /// Whether a column was written and nothing else.
    pub(crate) is_column: bool,
}

/// Types and simplifies one expression.
pub(crate) fn compile(text: &Text, mut tree: Written, scope: &Scope) -> Result<Typed, Fault> {
    let _ = VisitMut::visit(&mut tree, &mut Unqualify { tables: &scope.tables });
    let mut check = Check { text, scope, parameters: Vec::new(), reads: BTreeSet::new() };
    if let ControlFlow::Break(fault) = Visit::visit(&tree, &mut check) {
        return Err(*fault);
    }
    let (reads, is_column) = (check.reads, matches!(tree, Written::Identifier(_)));
    let expr = typed(tree.clone(), scope).map_err(|message| {
        let mut blame = Blame { text, scope, lambdas: 0 };
        match Visit::visit(&tree, &mut blame) {
            ControlFlow::Break(fault) => *fault,
            ControlFlow::Continue(()) => Fault::new(message, text.whole()),
        }
    })?;
    Ok(Typed { expr, reads, is_column })
}

/// Steps 2 to 7.
fn typed(tree: Written, scope: &Scope) -> Result<Expr, String> {
    let said = |error: DataFusionError| crate::fault::reworded(&error);
    let options = ParserOptions::new()
        .with_parse_float_as_decimal(true)
        .with_enable_ident_normalization(false)
        .with_map_string_types_to_utf8view(false);
    let planner = SqlToRel::new_with_options(&*NAMES, options);
    let expr = planner.sql_to_expr(tree, &scope.schema, &mut PlannerContext::new()).map_err(said)?;
    let expr = with_bounds(expr).map_err(said)?;
    let expr = exact::mark_written_casts(expr).map_err(said)?;
    let expr = exact::seconds_as_times(expr, &scope.schema)?;
    let expr = canonical(expr, &scope.kinds)?;
    refuse_casts_of_names(&expr, &scope.kinds)?;
    let expr = exact::adopt_types(expr, &scope.schema)?;
    let context = SimplifyContext::builder()
        .with_schema(Arc::clone(&scope.schema))
        .with_config_options(NAMES.options())
        .build();
    let simplifier = ExprSimplifier::new(context);
    let expr = simplifier.coerce(expr, &scope.schema).map_err(said)?;
    exact::refuse_lossy_casts(&expr, &scope.schema)?;
    let expr = exact::compare_times(expr, &scope.schema)?;
    let expr = exact::unmark_written_casts(expr).map_err(said)?;
    let expr = exact::as_written(expr, &scope.schema)?;
    let expr = exact::negate_checked(expr, &scope.schema)?;
    let expr = exact::fold_arithmetic(expr)?;
    exact::refuse_times_of_dates(&expr, &scope.schema)?;
    exact::refuse_bad_patterns(&expr, &scope.schema)?;
    let expr = exact::keep_backslashes(expr)?;
    let expr = exact::nest_branches(expr, &scope.schema)?;
    let expr = exact::keep_guards(expr, &scope.schema)?;
    let expr = simplifier.simplify(expr).map_err(said)?;
    exact::refuse_bad_patterns(&expr, &scope.schema)?;
    exact::refuse_failing_constants(&expr)?;
    exact::refuse_failing_times(&expr, &scope.schema)?;
    // What has no type has no meaning either: ask while the place is known.
    expr.get_type(&*scope.schema).map_err(said)?;
    Ok(expr)
}

/// `input.host` to `host`.
struct Unqualify<'a> {
    tables: &'a [String],
}

impl VisitorMut for Unqualify<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Written) -> ControlFlow<()> {
        match expr {
            Written::CompoundIdentifier(parts) => {
                if let [table, column] = parts.as_slice()
                    && self.tables.contains(&table.value)
                {
                    *expr = Written::Identifier(column.clone());
                }
            }
            // `input.attributes['colour']`
            Written::CompoundFieldAccess { root, access_chain } => {
                if let Written::Identifier(table) = root.as_ref()
                    && self.tables.contains(&table.value)
                    && let Some(AccessExpr::Dot(column @ Written::Identifier(_))) = access_chain.first()
                {
                    **root = column.clone();
                    access_chain.remove(0);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Step 1.
struct Check<'a> {
    text: &'a Text<'a>,
    scope: &'a Scope,
    /// Names bound by the functions without a name around this place.
    parameters: Vec<Vec<String>>,
    /// The columns so far.
    reads: BTreeSet<String>,
}

type Checked = ControlFlow<Box<Fault>>;

impl Check<'_> {
    fn column(&mut self, column: &Ident) -> Checked {
        let name = &column.value;
        if self.parameters.iter().flatten().any(|parameter| parameter == name) {
            return ControlFlow::Continue(());
        }
        if self.scope.has(name) {
            self.reads.insert(name.clone());
            return ControlFlow::Continue(());
        }
        let message = match nearest(name, self.scope.columns()) {
            Some(near) => format!("there is no column `{name}`; did you mean `{near}`"),
            None => format!("there is no column `{name}`; the columns are {}", some_of(self.scope.columns())),
        };
        let fault = Fault::new(message, self.text.range_of(column.span));
        ControlFlow::Break(Box::new(fault.misnamed(Misnamed::Unknown(name.clone()))))
    }

    fn function(&self, function: &ast::Function) -> Checked {
        let [ObjectNamePart::Identifier(ident)] = function.name.0.as_slice() else {
            let message = format!("there is no function `{}`; a function name has no dot", function.name);
            return ControlFlow::Break(Box::new(Fault::new(message, self.text.range(&function.name))));
        };
        let name = &ident.value;
        if function.over.is_some() {
            let message = format!(
                "`{name}` with OVER needs the rows around this one, and a step without state sees one; compute it in the table"
            );
            return self.fault(message, ident.span);
        }
        match NAMES.function(name) {
            Function::Known => match unread(function) {
                None => ControlFlow::Continue(()),
                Some(what) => self.fault(format!("`{name}` takes no {what}; leave it out"), ident.span),
            },
            Function::Refused(reason) => self.fault(format!("`{name}` is refused: {reason}"), ident.span),
            Function::Unknown if name.eq_ignore_ascii_case("unnest") => {
                let message = "UNNEST produces rows, so it must be an item of a query by itself, as in `SELECT UNNEST(tags) AS tag FROM input`";
                self.fault(message.into(), ident.span)
            }
            Function::Unknown if matches!(function.args, FunctionArguments::None) => {
                let message =
                    format!("`{name}` is a keyword of SQL; write a column of that name as `\"{name}\"`");
                self.fault(message, ident.span)
            }
            Function::Unknown => {
                let message = match nearest(name, NAMES.functions()) {
                    Some(near) => format!("there is no function `{name}`; did you mean `{near}`"),
                    None => format!(
                        "there is no function `{name}`; docs/reference/sql-functions.md lists all of them"
                    ),
                };
                self.fault(message, ident.span)
            }
        }
    }

    fn fault(&self, message: String, span: datafusion_sql::sqlparser::tokenizer::Span) -> Checked {
        ControlFlow::Break(Box::new(Fault::new(message, self.text.range_of(span))))
    }

    fn here(&self, message: &str, node: &impl ast::Spanned) -> Checked {
        let at = self.text.range(node).or_else(|| self.text.whole());
        ControlFlow::Break(Box::new(Fault::new(message, at)))
    }
}

impl Visitor for Check<'_> {
    type Break = Box<Fault>;

    fn pre_visit_expr(&mut self, expr: &Written) -> Checked {
        match expr {
            Written::Identifier(column) => self.column(column),
            Written::CompoundIdentifier(parts) => {
                let dotted = parts.iter().map(|part| part.value.as_str()).collect::<Vec<_>>().join(".");
                let way_out = if self.scope.has(&dotted) {
                    format!("quote a name that contains a dot, as in `\"{dotted}\"`")
                } else {
                    "a field of a map is written `column['field']`".to_owned()
                };
                self.here(&format!("there is no table or column `{}`; {way_out}", parts[0].value), expr)
            }
            Written::Function(function) => self.function(function),
            Written::Lambda(lambda) => {
                self.parameters.push(lambda.params.iter().map(|p| p.name.value.clone()).collect());
                ControlFlow::Continue(())
            }
            Written::Subquery(_) | Written::Exists { .. } | Written::InSubquery { .. } => self.here(
                "a query within an expression would read other rows, and a step sees one at a time",
                expr,
            ),
            Written::Value(value) if matches!(value.value, Value::Placeholder(_)) => {
                self.here("parameters are not supported; write the value", value)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn post_visit_expr(&mut self, expr: &Written) -> Checked {
        if matches!(expr, Written::Lambda(_)) {
            self.parameters.pop();
        }
        ControlFlow::Continue(())
    }
}

/// Finds the first expression, innermost first, that is wrong by itself.
struct Blame<'a> {
    text: &'a Text<'a>,
    scope: &'a Scope,
    /// Functions without a name around this place: within them nothing can be planned by itself.
    lambdas: usize,
}

impl Visitor for Blame<'_> {
    type Break = Box<Fault>;

    fn pre_visit_expr(&mut self, expr: &Written) -> Checked {
        self.lambdas += usize::from(matches!(expr, Written::Lambda(_)));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Written) -> Checked {
        if matches!(expr, Written::Lambda(_)) {
            self.lambdas -= 1;
            return ControlFlow::Continue(());
        }
        if self.lambdas > 0 {
            return ControlFlow::Continue(());
        }
        match typed(expr.clone(), self.scope) {
            Ok(_) => ControlFlow::Continue(()),
            Err(message) => {
                let at = self.text.place(expr).or_else(|| self.text.whole());
                ControlFlow::Break(Box::new(Fault::new(message, at)))
            }
        }
    }
}

/// What stands in or behind the parentheses of a call, and would have no effect: planning passes over it.
pub(crate) fn unread(function: &ast::Function) -> Option<&'static str> {
    let (is_distinct, clauses) = match &function.args {
        FunctionArguments::List(list) => {
            (list.duplicate_treatment == Some(DuplicateTreatment::Distinct), list.clauses.as_slice())
        }
        _ => (false, Default::default()),
    };
    let is_sorted = clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)));
    let minds_nulls =
        clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::IgnoreOrRespectNulls(_)));
    [
        (function.parameters != FunctionArguments::None, "second list of arguments"),
        (is_distinct, "DISTINCT, which is of many rows"),
        (is_sorted, "ORDER BY, which is of many rows"),
        (minds_nulls || function.null_treatment.is_some(), "IGNORE or RESPECT NULLS, which is of many rows"),
        (function.filter.is_some(), "FILTER, which is of many rows"),
        (!function.within_group.is_empty(), "WITHIN GROUP, which is of many rows"),
    ]
    .into_iter()
    .find_map(|(is_there, what)| is_there.then_some(what))
}

/// A few names for a message.
fn some_of<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 12;
    let mut names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    match more {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
