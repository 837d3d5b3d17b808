//! Constants beside UUIDs, addresses and Enums.
//!
//! Expressions read these types as text, and a value has one text. So a constant beside one gets the text of the value that it spells, and one that
//! spells no value is refused. Owns where such constants stand, and the comparisons that texts would answer otherwise than the types.
//! Does not own the texts (`kinds`).
//!
//! | beside such a value                               | a constant                                        |
//! |---------------------------------------------------|---------------------------------------------------|
//! | `=`, `<>`, IN, CASE … WHEN, `nullif`, a map's key | must spell a value                                |
//! | what `array_has`, `array_remove` … look for       | must spell a value                                |
//! | another result of `coalesce`, CASE, an array …    | may: if it does not, the result is any text       |
//! | `<`, `>`, BETWEEN, `greatest`, `array_sort` …     | refused: texts have another order than the types  |

use datafusion_common::ScalarValue;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRewriter};
use datafusion_expr::expr::{InList, ScalarFunction};
use datafusion_expr::{Between, BinaryExpr, Case, Expr, Operator};

use dataflow::ColumnType;

use crate::fault::{reworded, shown};
use crate::kinds::{self, Kinds};

/// Gives constants the text of the value that they spell.
pub(crate) fn canonical(expr: Expr, kinds: &Kinds) -> Result<Expr, String> {
    let mut rewriter = Rewriter { kinds: kinds.outside(), fault: None };
    let rewritten = expr.rewrite(&mut rewriter);
    match rewriter.fault {
        Some(message) => Err(message),
        None => rewritten.map(|rewritten| rewritten.data).map_err(|error| reworded(&error)),
    }
}

struct Rewriter {
    kinds: Kinds,
    fault: Option<String>,
}

impl TreeNodeRewriter for Rewriter {
    type Node = Expr;

    fn f_down(&mut self, node: Expr) -> datafusion_common::Result<Transformed<Expr>> {
        if let Expr::HigherOrderFunction(call) = &node {
            let items = call.args.first().and_then(|list| self.kinds.of(list));
            for arg in &call.args {
                if let Expr::Lambda(lambda) = arg {
                    self.kinds.enter(&lambda.params, items.as_ref());
                }
            }
        }
        Ok(Transformed::no(node))
    }

    fn f_up(&mut self, node: Expr) -> datafusion_common::Result<Transformed<Expr>> {
        if let Expr::HigherOrderFunction(call) = &node {
            for arg in &call.args {
                if let Expr::Lambda(lambda) = arg {
                    self.kinds.leave(&lambda.params);
                }
            }
        }
        self.node(node).map(Transformed::yes).or_else(|message| {
            self.fault = Some(message);
            datafusion_common::exec_err!("refused")
        })
    }
}

impl Rewriter {
    fn node(&self, node: Expr) -> Result<Expr, String> {
        match node {
            Expr::BinaryExpr(binary) => self.binary(binary).map(Expr::BinaryExpr),
            Expr::Between(between) => {
                let Between { expr, low, high, .. } = &between;
                self.refuse_order("BETWEEN", &[&**expr, &**low, &**high])?;
                Ok(Expr::Between(between))
            }
            Expr::InList(InList { expr, list, negated }) => {
                let kind = self.kinds.of(&expr);
                let list = list.into_iter().map(|item| must(item, kind.as_ref(), &expr));
                let list = list.collect::<Result<_, _>>()?;
                Ok(Expr::InList(InList::new(expr, list, negated)))
            }
            Expr::Case(case) => self.case(case).map(Expr::Case),
            Expr::ScalarFunction(ScalarFunction { func, args }) => {
                let args = self.arguments(func.name(), args)?;
                Ok(Expr::ScalarFunction(ScalarFunction::new_udf(func, args)))
            }
            other => Ok(other),
        }
    }

    fn binary(&self, binary: BinaryExpr) -> Result<BinaryExpr, String> {
        use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
        let BinaryExpr { left, op, right } = binary;
        match op {
            Eq | NotEq | IsDistinctFrom | IsNotDistinctFrom => {
                let (of_left, of_right) = (self.kinds.of(&left), self.kinds.of(&right));
                if let (Some(a), Some(b)) = (&of_left, &of_right)
                    && kinds::called(a) != kinds::called(b)
                {
                    return Err(unlike(&left, a, &right, b));
                }
                let new_right = must(*right.clone(), of_left.as_ref(), &left)?;
                let new_left = must(*left, of_right.as_ref(), &right)?;
                Ok(BinaryExpr::new(Box::new(new_left), op, Box::new(new_right)))
            }
            Lt | LtEq | Gt | GtEq => {
                self.refuse_order(&op.to_string(), &[&*left, &*right])?;
                Ok(BinaryExpr::new(left, op, right))
            }
            _ => Ok(BinaryExpr::new(left, op, right)),
        }
    }

    fn case(&self, case: Case) -> Result<Case, String> {
        let compared = case.expr.as_deref().and_then(|expr| self.kinds.of(expr));
        let results = case.when_then_expr.iter().map(|(_, then)| &**then).chain(case.else_expr.as_deref());
        let result = results.into_iter().find_map(|result| self.kinds.of(result));
        let branch = |(when, then): (Box<Expr>, Box<Expr>)| {
            let when = match case.expr.as_deref() {
                Some(expr) => Box::new(must(*when, compared.as_ref(), expr)?),
                None => when,
            };
            Ok((when, Box::new(may(*then, result.as_ref()))))
        };
        let branches = case.when_then_expr.into_iter().map(branch).collect::<Result<Vec<_>, String>>()?;
        let otherwise = case.else_expr.map(|otherwise| Box::new(may(*otherwise, result.as_ref())));
        Ok(Case::new(case.expr, branches, otherwise))
    }

    fn arguments(&self, name: &str, args: Vec<Expr>) -> Result<Vec<Expr>, String> {
        let of_first = || self.kinds.of(args.first()?);
        match name {
            "coalesce" | "nvl" | "ifnull" | "nvl2" | "make_array" => {
                let kind = args.iter().find_map(|arg| self.kinds.of(arg));
                Ok(args.into_iter().map(|arg| may(arg, kind.as_ref())).collect())
            }
            "greatest" | "least" | "array_max" | "array_min" | "array_sort" => {
                self.refuse_order(name, &args.iter().collect::<Vec<_>>())?;
                Ok(args)
            }
            "nullif" => {
                let kind = of_first();
                beside(args, |at, arg, first| if at == 1 { must(arg, kind.as_ref(), first) } else { Ok(arg) })
            }
            "array_has" | "array_position" | "array_positions" | "array_remove" | "array_remove_all"
            | "array_remove_n" => {
                let kind = of_first();
                let item = kind.as_ref().and_then(kinds::item);
                beside(args, |at, arg, first| if at == 1 { must(arg, item, first) } else { Ok(arg) })
            }
            "array_replace" | "array_replace_all" | "array_replace_n" => {
                let kind = of_first();
                let item = kind.as_ref().and_then(kinds::item);
                beside(args, |at, arg, first| match at {
                    1 => must(arg, item, first),
                    2 => Ok(may(arg, item)),
                    _ => Ok(arg),
                })
            }
            "array_append" | "array_resize" => {
                let kind = of_first();
                let item = kind.as_ref().and_then(kinds::item);
                Ok(args
                    .into_iter()
                    .enumerate()
                    .map(|(at, arg)| if at == 0 { arg } else { may(arg, item) })
                    .collect())
            }
            "array_prepend" => {
                let kind = args.get(1).and_then(|list| self.kinds.of(list));
                let item = kind.as_ref().and_then(kinds::item);
                Ok(args
                    .into_iter()
                    .enumerate()
                    .map(|(at, arg)| if at == 0 { may(arg, item) } else { arg })
                    .collect())
            }
            "array_has_all" | "array_has_any" | "array_except" | "array_intersect" => {
                let kind = of_first();
                beside(args, |at, arg, first| if at == 1 { must(arg, kind.as_ref(), first) } else { Ok(arg) })
            }
            "get_field" | "map_extract" => {
                let key = match of_first() {
                    Some(ColumnType::Map(key, _)) => Some(*key),
                    _ => None,
                };
                beside(args, |at, arg, first| if at == 1 { must(arg, key.as_ref(), first) } else { Ok(arg) })
            }
            _ => Ok(args),
        }
    }

    /// Texts are ordered by their letters: `10.0.0.10` is before `10.0.0.2`, and an Enum has the order of its numbers.
    fn refuse_order(&self, what: &str, exprs: &[&Expr]) -> Result<(), String> {
        let Some((expr, kind)) = exprs.iter().find_map(|expr| Some((expr, self.kinds.of(expr)?))) else {
            return Ok(());
        };
        let shown = shown(expr);
        let item = kinds::item(&kind);
        let called = kinds::called(item.unwrap_or(&kind));
        let network = match item.unwrap_or(&kind) {
            ColumnType::Ipv4 => format!(", or `ip_in_network({shown}, '10.0.0.0/8')` for a range"),
            ColumnType::Ipv6 => format!(", or `ip_in_network({shown}, '2001:db8::/32')` for a range"),
            _ => String::new(),
        };
        let text = if item.is_some() { "Array(String)" } else { "String" };
        Err(format!(
            "`{shown}` is read as text, and `{what}` would use the order of the text, which is not the order of the {called}; write `CAST({shown} AS {text})` \
             to use it anyway{network}"
        ))
    }
}

/// Each argument with its number and the first one.
fn beside(
    args: Vec<Expr>,
    each: impl Fn(usize, Expr, &Expr) -> Result<Expr, String>,
) -> Result<Vec<Expr>, String> {
    let Some(first) = args.first().cloned() else { return Ok(args) };
    args.into_iter().enumerate().map(|(at, arg)| each(at, arg, &first)).collect()
}

/// The constant with the text of the value that it spells, or an error.
fn must(expr: Expr, kind: Option<&ColumnType>, beside: &Expr) -> Result<Expr, String> {
    let Some(kind) = kind else { return Ok(expr) };
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) if kinds::is_scalar(kind) => {
            let own = kinds::text_of(&text, kind)?.into_owned();
            Ok(Expr::Literal(ScalarValue::Utf8(Some(own)), metadata))
        }
        Expr::Literal(value, _) if kinds::is_scalar(kind) && !value.is_null() => Err(format!(
            "`{}` is compared with `{value}`, which is not a valid {}; write it in quotes",
            shown(beside),
            kinds::called(kind)
        )),
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "make_array" => {
            let args = args.into_iter().map(|arg| must(arg, kinds::item(kind), beside));
            Ok(Expr::ScalarFunction(ScalarFunction::new_udf(func, args.collect::<Result<_, _>>()?)))
        }
        other => Ok(other),
    }
}

/// The same, but a constant that spells no value stays as it is.
fn may(expr: Expr, kind: Option<&ColumnType>) -> Expr {
    match must(expr.clone(), kind, &expr) {
        Ok(own) => own,
        Err(_) => expr,
    }
}

fn unlike(left: &Expr, a: &ColumnType, right: &Expr, b: &ColumnType) -> String {
    let (left, right) = (shown(left), shown(right));
    let are_addresses = [a, b].iter().all(|kind| matches!(kind.bare(), ColumnType::Ipv4 | ColumnType::Ipv6));
    if are_addresses {
        return format!(
            "`{left}` is an {} and `{right}` an {}, whose texts are never the same; write `ip_to_text({left}) = ip_to_text({right})`",
            kinds::called(a),
            kinds::called(b)
        );
    }
    format!(
        "`{left}` is a value of another type than `{right}`: {} and {}",
        kinds::called(a),
        kinds::called(b)
    )
}
