//! Every file in `check/` has a twin that differs by the smallest edit, compiles and runs. The
//! twins are modules of this one program: a program each would be a hundred times the compiler's
//! work.

#![allow(
    missing_docs,
    unused,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    reason = "samples"
)]

use std::process::{ExitCode, Termination};

macro_rules! twin {
    () => {
        #[test]
        fn compiles_and_runs() {
            crate::succeeded(main());
        }
    };
}

fn succeeded(ended: impl Termination) {
    assert_eq!(format!("{:?}", ended.report()), format!("{:?}", ExitCode::SUCCESS));
}

include!(concat!(env!("OUT_DIR"), "/twins.rs"));
