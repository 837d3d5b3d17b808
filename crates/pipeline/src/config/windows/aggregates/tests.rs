use super::read;

/// The words of an aggregate and what must be computed for it, or why it is none.
fn told(text: &str) -> String {
    match read("x", text) {
        Err(message) => message,
        Ok(read) => {
            let one = read.aggregate;
            let mut told = format!("{}({})", one.function.word(), one.column.unwrap_or_default());
            one.by.iter().for_each(|by| told += &format!(" by {by}"));
            if !one.numbers.is_empty() {
                told += &format!(" {:?}", one.numbers);
            }
            told += if one.distinct { " distinct" } else { "" };
            one.condition.iter().for_each(|condition| told += &format!(" where {condition}"));
            read.computed.iter().for_each(|text| told += &format!("; computes {text}"));
            told
        }
    }
}

#[test]
fn an_aggregate_is_read_as_sql_and_clickhouse_write_it() {
    for (text, expected) in [
        ("count()", "count()"),
        ("COUNT(*)", "count()"),
        ("count(distinct device)", "count(device) distinct"),
        ("uniqExact(device)", "count_distinct(device)"),
        ("sum( amount ) where paid", "sum(amount) where paid"),
        (
            "sum(amount) FILTER (WHERE status = 'a)b')",
            "sum(amount) where status = 'a)b'; computes status = 'a)b'",
        ),
        (
            "sumIf(amount, status in ('a', 'b'))",
            "sum(amount) where status in ('a', 'b'); computes status in ('a', 'b')",
        ),
        ("countIf(paid)", "count() where paid"),
        ("sum(price  *\n amount)", "sum(price * amount); computes price * amount"),
        (
            "countIf(status = 'in  transit')",
            "count() where status = 'in  transit'; computes status = 'in  transit'",
        ),
        ("argMax(price, sold_at)", "arg_max(price) by sold_at"),
        ("min_by(price, a + b)", "arg_min(price) by a + b; computes a + b"),
        ("median(x)", "quantile(x) [500000]"),
        ("quantiles(x, 0.5, 0.999)", "quantiles(x) [500000, 999000]"),
        ("group_array(x, 10)", "group_array(x) [10]"),
        ("stddev(x)", "stddev_samp(x)"),
        ("max(\"a, b\")", "max(a, b)"),
    ] {
        assert_eq!(told(text), expected, "{text}");
    }
}

#[test]
fn what_is_no_aggregate_says_what_to_write() {
    for (text, expected) in [
        ("amount", "is no aggregate; write"),
        ("sum(amount", "nothing closes"),
        ("sum(amount) over (x)", "is no aggregate; write"),
        ("sum()", "`sum` needs a column"),
        ("sum(a, b)", "`sum` takes one column"),
        ("arg_max(a)", "needs two columns"),
        ("min(distinct a)", "`min` does not take `distinct`"),
        ("quantile(a, 99)", "no level from 0 to 1"),
        ("group_array(a)", "needs the greatest number of values"),
        ("group_array(a, 1000000)", "1 to 10000"),
        ("countt(a)", "did you mean `count`"),
        ("sumIf(a, b) where c", "two conditions"),
        ("quantile(0.99)(a)", "write the column first, as in `quantile(x, 0.99)`"),
        ("groupArray(10)(a)", "`group_array(x, 10)`"),
    ] {
        let told = told(text);
        assert!(told.contains(expected), "{text}: {told}");
    }
}

#[test]
fn a_state_has_the_name_that_the_server_has_for_it() {
    for text in [
        "countState()",
        "sum_state(a)",
        "argMaxState(a, b)",
        "arg_max_state(a, b)",
        "anyState(a)",
        "uniqState(a)",
        "uniqIfState(a, b)",
        "quantileTDigestState(a, 0.5)",
        "quantilesTDigestState(a, 0.5, 0.99)",
    ] {
        assert!(read("x", text).unwrap().aggregate.is_state, "{text}");
    }
    for (text, own) in [
        ("uniqCombinedState(a)", "uniqState"),
        ("uniqHLL12State(a)", "uniqState"),
        ("uniqCombinedIfState(a, b)", "uniqState"),
        ("approx_distinctState(a)", "uniqState"),
        ("approx_count_distinctState(a)", "uniqState"),
        ("quantileState(a, 0.5)", "quantileTDigestState"),
        ("quantilesState(a, 0.5)", "quantilesTDigestState"),
        ("medianState(a)", "quantileTDigestState"),
        ("meanState(a)", "avgState"),
    ] {
        let told = told(text);
        assert!(told.contains("is not made") && told.contains(&format!("write `{own}(")), "{text}: {told}");
    }
}
