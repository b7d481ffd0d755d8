//! The first program that people run.

use std::process::Stdio;

use crate::machine::{Test, example, output, says, with_gpus};

pub(crate) const TESTS: &[Test] = &[Test {
    name: "quickstart_as_threads_and_as_processes",
    program: || Ok(()),
    test: |run| {
        for (kind, ranks) in [("cuda-threads", 2), ("cuda-threads", 4), ("cuda", 2), ("cuda", 4)] {
            let mut command = with_gpus(run.by(&example("quickstart").to_string_lossy(), &[]));
            command.env("TYPED_NCCL", format!("{kind}:{ranks}")).stderr(Stdio::inherit());
            let ended = output(command);
            assert!(ended.status.success(), "{ended:?}");
            says(&ended.stdout, &[&format!("{ranks} ranks, cuda"), "all verified"]);
        }
    },
}];
