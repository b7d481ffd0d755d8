//! Checks schedules that other tools wrote.

use typed_nccl_verify::{Verdict, verdict};

use crate::{Check, Failure};

pub(crate) fn run(files: &[&str]) -> Check {
    let (verdict, text) = verdict(files);
    print!("{text}");
    match verdict {
        Verdict::Right => Ok(()),
        Verdict::Wrong => Err(Failure::Broken("a schedule is wrong".to_owned())),
        Verdict::Unreadable => Err(Failure::NotMade("a schedule cannot be read".to_owned())),
    }
}
