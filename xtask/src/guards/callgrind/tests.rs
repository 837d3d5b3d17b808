use super::*;

const FILE: &str = "\
# callgrind format
version: 1
positions: line
events: Ir
summary: 150

ob=/t/one-step
fl=a.rs
fn=guards::measured
10 100
cob=/lib/libc.so.6
cfn=memcpy
calls=2 0
11 40
12 10

ob=/lib/libc.so.6
fl=memcpy.S
fn=memcpy
0 40

totals: 150
";

#[test]
fn what_a_callee_spent_is_counted_once_and_where_it_was_spent() {
    let counts = parse(FILE, "/t/one-step").expect("a file");
    assert_eq!(counts, Counts { own: 110, libraries: 40 });
}

#[test]
fn a_file_that_does_not_add_up_is_refused() {
    let file = FILE.replace("12 10", "12 11");
    assert!(parse(&file, "/t/one-step").is_err());
    assert!(parse(&FILE.replace("totals", "sum"), "/t/one-step").is_err());
}
