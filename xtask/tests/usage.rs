//! The program that the gate runs: cargo builds it with the tests because of this one.

use std::process::Command;

#[test]
fn what_is_unknown_is_not_checked() {
    let told = Command::new(env!("CARGO_BIN_EXE_xtask")).arg("all").output().expect("it runs");
    assert_eq!(told.status.code(), Some(2));
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.starts_with("NOT CHECKED: usage: "), "{told}");
}

#[test]
fn a_schedule_that_is_missing_is_not_checked() {
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let told = xtask.args(["verify", "no such file"]).output().expect("it runs");
    assert_eq!(told.status.code(), Some(2));
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.starts_with("NOT CHECKED: a schedule cannot be read"), "{told}");
}
