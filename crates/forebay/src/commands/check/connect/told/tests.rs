//! What is told of two tables of one server.

use super::*;

fn fault(kind: TableFault, remedy: Remedy, message: &str, fix: Option<&str>) -> Fault {
    Fault { message: message.to_owned(), fix: fix.map(str::to_owned), remedy, kind }
}

#[test]
fn each_setting_that_a_user_may_not_have_is_told_and_each_once() {
    let forbidden = |name: &str| {
        let fix = format!("ALTER USER u SETTINGS {name} = 0");
        fault(TableFault::Access, Remedy::Stop, &format!("`{name}` is fixed"), Some(&fix))
    };
    let refused = fault(TableFault::Access, Remedy::Stop, "user `u` is refused", None);
    let away = fault(TableFault::Uncertain, Remedy::Resend, "nobody answers", None);
    let missing =
        |table: &str| fault(TableFault::Differs, Remedy::Stop, &format!("`{table}` has no key"), None);
    let of_tables = [
        vec![forbidden("limit"), forbidden("final"), missing("a"), refused.clone()],
        vec![forbidden("limit"), forbidden("final"), missing("b"), refused, away],
    ];
    let mut told = Told::default();
    let shown: Vec<String> = of_tables
        .iter()
        .flatten()
        .filter(|fault| told.is_new(fault))
        .map(|fault| fault.message.clone())
        .collect();
    assert_eq!(
        shown,
        ["`limit` is fixed", "`final` is fixed", "`a` has no key", "user `u` is refused", "`b` has no key"]
    );
}
