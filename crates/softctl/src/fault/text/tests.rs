use super::*;

fn error(text: &str) -> String {
    FaultPlan::from_toml(text).unwrap_err().to_string()
}

#[test]
fn the_documented_plan_parses() {
    let text = r#"
        seed = 7
        [[fault]]
        kind = "fail"
        status = "Unrecovered Read Error"
        dnr = true
        opcode = ["read", "compare"]
        lba = [1000, 1999]
        [[fault]]
        kind = "corrupt"
        bits = 2
        nsid = 1
        opcode = "read"
        lba = 5
        every = 100
        probability = 0.5
        count = 1
    "#;
    let plan = FaultPlan::from_toml(text).unwrap();
    assert_eq!(plan.seed, 7);
    let status = Status::UNRECOVERED_READ.with_dnr(true);
    assert_eq!(plan.faults[0].action, FaultAction::Fail { status });
    assert_eq!(plan.faults[0].selector.opcodes, [NvmOpcode::READ, NvmOpcode::COMPARE]);
    assert_eq!(plan.faults[0].selector.lba, Some(Lba(1000)..=Lba(1999)));
    assert_eq!(plan.faults[1].action, FaultAction::Corrupt { bits: 2 });
    assert_eq!(plan.faults[1].selector.lba, Some(Lba(5)..=Lba(5)));
    assert_eq!((plan.faults[1].selector.every, plan.faults[1].selector.count), (100, Some(1)));
}

#[test]
fn a_retry_delay_goes_with_a_status_that_may_be_retried() {
    let fail = "[[fault]]\nkind='fail'\nstatus='Command Interrupted'\n";
    let status = Status::COMMAND_INTERRUPTED.with_crd(3);
    let plan = FaultPlan::from_toml(&format!("{fail}crd=3")).unwrap();
    assert_eq!(plan.faults[0].action, FaultAction::Fail { status });
    assert!(error(&format!("{fail}crd=4")).contains("crd = 4: must be 1 to 3"));
    assert!(error(&format!("{fail}crd=0")).contains("crd = 0: must be 1 to 3"));
    assert!(error(&format!("{fail}crd=1\ndnr=true")).contains("crd = 1: goes with dnr = false only"));
    assert!(error("[[fault]]\nkind='hang'\ncrd=1").contains("belongs to kind = \"fail\""));
}

#[test]
fn status_by_number_and_by_loose_name() {
    let plan = |status: &str| {
        FaultPlan::from_toml(&format!("[[fault]]\nkind = \"fail\"\nstatus = {status}")).unwrap().faults[0]
            .action
    };
    assert_eq!(plan("{ sct = 2, sc = 0x81 }"), plan("\"unrecovered_read_error\""));
}

#[test]
fn errors_name_file_key_value_and_limit() {
    assert_eq!(
        error("[[fault]]\nkind = \"corrupt\"\nprobability = 1.5"),
        "fault plan <text>: fault 1: probability = 1.5: must be 0.0 to 1.0"
    );
    assert_eq!(
        error("[[fault]]\nkind = \"corrupt\"\nlba = [9, 3]"),
        "fault plan <text>: fault 1: lba = [9, 3]: first must not be after last"
    );
    assert!(error("[[fault]]\nkind = \"corrupt\"\nevery = 0").contains("every = 0: must be 1 or more"));
    assert!(error("[[fault]]\nkind = \"corrupt\"\nbits = 0").contains("bits = 0: must be 1 to 4096"));
    assert!(error("[[fault]]\nkind = \"corrupt\"\nopcode = \"write\"").contains("read only"));
    assert!(error("[[fault]]\nkind = \"fail\"").contains("needs one"));
    assert!(
        error("[[fault]]\nkind = \"fail\"\nstatus = \"Successful Completion\"").contains("must be an error")
    );
    assert!(error("[[fault]]\nkind = \"fail\"\nstatus = \"no such\"").contains("\"no such\""));
    assert!(
        error("[[fault]]\nkind = \"fail\"\nstatus = {sct = 9, sc = 1}").contains("sct = 9: must be 0 to 7")
    );
    assert!(error("[[fault]]\nkind = \"corrupt\"\nopcode = \"reed\"").contains("flush, write, read"));
    assert!(error("[[fault]]\nkind = \"corrupt\"\ncolour = 1").contains("unknown field `colour`"));
    assert!(error("[[fault]]\nkind = \"melt\"").contains("melt"));
    assert!(error("[[fault]]\nkind = \"corrupt\"\nstatus = \"Internal Error\"").contains("kind = \"fail\""));
}

#[test]
fn a_missing_file_is_named() {
    let error = FaultPlan::load("/nonexistent/plan.toml").unwrap_err().to_string();
    assert!(error.starts_with("fault plan /nonexistent/plan.toml: "), "{error}");
}

#[test]
fn every_kind_has_its_keys() {
    let by = |kind: &str, by: &str| {
        FaultPlan::from_toml(&format!("[[fault]]\nkind='{kind}'\nby={by}")).unwrap().faults[0].action
    };
    let us = Duration::from_micros;
    assert_eq!(by("delay", "'5ms'"), FaultAction::Delay { by: us(5000) });
    assert_eq!(by("reorder", "3"), FaultAction::Reorder { by: 3 });
    assert_eq!(by("torn", "'1us'"), FaultAction::Torn { by: us(1) });
    assert_eq!(by("late_payload", "'10us'"), FaultAction::LatePayload { by: us(10) });
    assert_eq!(by("stuck_doorbell", "'forever'"), FaultAction::StuckDoorbell { by: None });
    assert_eq!(by("stuck_doorbell", "'1ms'"), FaultAction::StuckDoorbell { by: Some(us(1000)) });
    let slow = FaultAction::Slow { by: us(10_000), lasting: us(1_000_000) };
    assert_eq!(by("slow", "'10ms'\nlasting='1s'"), slow);
    for (kind, name) in FaultKind::ALL {
        assert_eq!(kind.name(), *name);
        let text = match kind {
            FaultKind::Fail => "status='Internal Error'",
            FaultKind::Reorder => "by=1",
            FaultKind::Slow => "by='1us'\nlasting='1us'",
            FaultKind::Delay | FaultKind::Torn | FaultKind::LatePayload | FaultKind::StuckDoorbell => {
                "by='1us'"
            }
            _ => "",
        };
        let plan = FaultPlan::from_toml(&format!("[[fault]]\nkind='{name}'\n{text}")).unwrap();
        assert_eq!(plan.faults[0].action.kind(), *kind);
    }
}

#[test]
fn misplaced_keys_and_bad_times_are_refused() {
    assert_eq!(
        error("[[fault]]\nkind='drop'\nby='1us'"),
        "fault plan <text>: fault 1: by = (given): belongs to kind = \"delay\", kind = \"reorder\", \
         kind = \"torn\", kind = \"late_payload\", kind = \"stuck_doorbell\", kind = \"slow\""
    );
    assert!(error("[[fault]]\nkind='delay'").contains("by = (none): must be a duration"));
    assert!(error("[[fault]]\nkind='delay'\nby=5").contains("by = 5: must be a duration"));
    assert!(error("[[fault]]\nkind='stuck_doorbell'\nby='ever'").contains("or \"forever\""));
    assert!(error("[[fault]]\nkind='slow'\nby='1us'").contains("lasting = (none)"));
    assert!(error("[[fault]]\nkind='reorder'\nby=0").contains("must be 1 to 65535 commands"));
    assert!(error("[[fault]]\nkind='reorder'\nby='2us'").contains("must be 1 to 65535 commands"));
    assert!(error("[[fault]]\nkind='power_loss'\nkeep=1.5").contains("keep = 1.5: must be 0.0 to 1.0"));
    assert!(error("[[fault]]\nkind='late_payload'\nby='1us'\nopcode='flush'").contains("read and write"));
    assert!(error("[[fault]]\nkind='torn'\nby='1us'\nadmin='abort'").contains("not apply to admin"));
    assert!(error("[[fault]]\nkind='drop'\nadmin='abort'\nlba=1").contains("goes with neither"));
    assert!(error("[[fault]]\nkind='drop'\nadmin='arbort'").contains("must be an admin opcode: delete"));
    assert!(error("[[fault]]\nkind='drop'\nqueue=0").contains("queue = 0: must be 1 or more"));
}

#[test]
fn plans_made_in_code_are_checked_too() {
    let selector = Selector { probability: f64::NAN, ..Selector::default() };
    let plan = FaultPlan { seed: 0, faults: vec![Fault::once(FaultAction::Drop, selector)] };
    assert!(plan.validate().unwrap_err().to_string().contains("probability = NaN"));
}
