use dataflow::SourceError;
use protocol::doubt::StopReason;

use super::*;

#[test]
fn the_exit_code_says_whether_starting_again_helps() {
    let source = |fault| EngineError::Source(SourceError::new(fault, "x"));
    let doubt = EngineError::Doubt {
        table: "t".into(),
        ordinal: 1,
        frame: "f".into(),
        reason: StopReason::CannotTell,
        more: 0,
    };
    for (error, exit) in [
        (EngineError::Fenced { seq: 1 }, Exit::Fenced),
        (doubt, Exit::Person),
        (EngineError::Mismatch("x".into()), Exit::Person),
        (source(SourceFault::Away), Exit::Failed),
        (source(SourceFault::Refused), Exit::Person),
        (source(SourceFault::Config), Exit::Person),
        (EngineError::Internal("x"), Exit::Failed),
    ] {
        assert_eq!(exit_of(&error), exit, "{error}");
    }
    // What became of the sealed frames changes nothing about the reason.
    let refused = || Box::new(source(SourceFault::Refused));
    let delivered = EngineError::Delivered { error: refused(), rows: 7 };
    let left_alone = EngineError::LeftAlone { error: refused(), inserts: 7 };
    assert_eq!((exit_of(&delivered), exit_of(&left_alone)), (Exit::Person, Exit::Person));
    let table = WiringError::Table { table: "t".into(), faults: vec!["a".into(), "b".into()] };
    assert_eq!(exit_of_wiring(&table), Exit::Person);
    assert_eq!(table.to_string(), "table `t` cannot be used:\n  - a\n  - b");
    assert_eq!(exit_of_wiring(&WiringError::Settings("x".into())), Exit::Fault);
}
