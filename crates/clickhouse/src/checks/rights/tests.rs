use super::super::judge;
use super::super::read::Lacking;
use super::super::tests::{facts, plain};
use super::*;
use crate::settings::Shown;
use crate::testing::is_parsed_by_a_server;

#[test]
fn a_right_that_this_user_does_not_have_is_told_with_its_grant() {
    let config = TableConfig::new("d", "t");
    let mut denied = facts(plain());
    denied.server.known.user = "writer".into();
    denied.server.lacking = Lacking { insert: true, select: false };
    let faults = judge(&denied, &config).expect_err("nothing could be written");
    assert_eq!(
        faults.iter().map(Fault::to_string).collect::<Vec<_>>(),
        [
            "user `writer` may not insert into table `d.t`: it is necessary to have the grant INSERT on its columns; \
             fix it with: GRANT INSERT ON `d`.`t` TO `writer`"
        ]
    );
    assert_eq!(faults[0].kind, TableFault::Access);
    assert!(is_parsed_by_a_server(faults[0].fix.as_ref().expect("a statement")), "{faults:?}");

    denied.server.lacking = Lacking { insert: false, select: true };
    let notes = judge(&denied, &config).expect("rows are written").notes;
    let statement = notes[0].split("To avoid this: `").nth(1).and_then(|rest| rest.strip_suffix('`'));
    assert_eq!((notes.len(), statement), (1, Some("GRANT SELECT ON `d`.`t` TO `writer`")));
    assert!(is_parsed_by_a_server(statement.expect("as above")), "{notes:?}");
    // Where rows are never looked for, nothing has to be read.
    denied.table.as_mut().expect("a table").columns.pop();
    let notes = judge(&denied, &config).expect("rows are written").notes;
    assert!(notes.iter().all(|note| !note.contains("GRANT SELECT")), "{notes:?}");

    // What a user that only reads is granted shows once it may do more.
    denied.server.lacking = Lacking { insert: true, select: true };
    let readonly = Shown { value: "2".into(), ..Shown::default() };
    denied.server.known.settings.insert("readonly".into(), readonly);
    let faults = judge(&denied, &config).expect_err("nothing could be written");
    assert!(faults.iter().all(|fault| !fault.to_string().contains("GRANT")), "{faults:?}");
}
