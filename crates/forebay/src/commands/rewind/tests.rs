use super::*;

#[test]
fn a_source_that_does_not_answer_is_no_mistake_of_the_command_line() {
    let of = |fault: SourceFault| exit_of_asking(&SourceError::new(fault, "it is away").into());
    assert_eq!((of(SourceFault::Away), of(SourceFault::Store)), (Exit::Failed, Exit::Failed));
    assert_eq!(of(SourceFault::Config), Exit::Fault);
    assert_eq!(exit_of_asking(&anyhow::anyhow!("this pipeline does not read `orders/7`")), Exit::Fault);
}
