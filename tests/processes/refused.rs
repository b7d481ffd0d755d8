//! Refusals for a process that is one rank of several.

use typed_nccl::{Communicator, Cuda, Host, Result, Seat, World, launch, spmd};

use crate::machine::{Run, Test, output, says};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "all_ranks_in_each_process",
        program: || spmd::<Host>(2, |place| place.init()?.finish()),
        test: |run| refuses(run.bare(), &["torchrun", "rank 1 of 2", "`spmd`", "Seat::from_env"]),
    },
    Test {
        name: "all_ranks_in_each_process_with_values",
        program: || Host::spmd(2, |place| place.init()?.finish()).map(drop),
        test: |run| refuses(run.bare(), &["rank 1 of 2", "`Host::spmd`"]),
    },
    Test {
        name: "all_gpus_in_each_process",
        program: || Cuda::spmd(2, |place| place.init()?.finish()).map(drop),
        test: |run| refuses(run.on_gpus(), &["rank 1 of 2", "`Cuda::spmd`"]),
    },
    Test {
        name: "all_ranks_in_each_process_by_the_variable",
        program: || launch!(body),
        test: |run| {
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", "cuda");
            refuses(command, &["rank 1 of 2", "TYPED_NCCL=cuda", "leave the launcher out"]);
        },
    },
    Test {
        name: "a_gpu_that_the_process_does_not_see",
        program: || launch!(body),
        test: |run| {
            let mut command = run.on_gpus();
            command.env("LOCAL_RANK", "7");
            refuses(command, &["rank 1 of 2", "cuda:7", "sees 4 GPUs"]);
        },
    },
    Test {
        name: "half_of_a_launcher",
        program: || launch!(body),
        test: |run| {
            let mut command = run.bare();
            command.env("WORLD_SIZE", "2");
            let ended = output(command);
            assert_eq!(ended.status.code(), Some(1));
            says(&ended.stderr, &["WORLD_SIZE is set", "RANK, MASTER_ADDR, MASTER_PORT are not"]);
        },
    },
    Test {
        name: "no_launcher_at_all",
        program: || Seat::from_env()?.init(Host::local()?)?.finish(),
        test: |run: &Run| {
            let ended = output(run.bare());
            assert_eq!(ended.status.code(), Some(1));
            says(&ended.stderr, &["no launcher", "SLURM_PROCID (srun)", "Seat::local"]);
        },
    },
    Test {
        name: "the_only_rank_of_a_launcher",
        program: || {
            Seat::from_env()?.init(Cuda::local()?)?.finish()?;
            // And the next communicator.
            Seat::from_env()?.init(Cuda::local()?)?.finish()
        },
        test: |run| {
            let mut command = run.on_gpus();
            command.envs([("SLURM_STEP_ID", "0"), ("SLURM_JOB_ID", "1"), ("SLURM_PROCID", "0")]);
            command.envs([("SLURM_NTASKS", "1"), ("SLURM_LOCALID", "0")]);
            let ended = output(command);
            assert!(ended.status.success(), "{ended:?}");
        },
    },
];

fn body<W: World>(comm: Communicator<W>) -> Result<()> {
    comm.finish()
}

/// As torchrun starts rank 1 of 2.
fn refuses(mut command: std::process::Command, words: &[&str]) {
    let torchrun = [
        ("TORCHELASTIC_RUN_ID", "none"),
        ("RANK", "1"),
        ("WORLD_SIZE", "2"),
        ("MASTER_ADDR", "127.0.0.1"),
        ("MASTER_PORT", "29500"),
    ];
    command.envs(torchrun);
    if !command.get_envs().any(|(name, _)| name == "LOCAL_RANK") {
        command.env("LOCAL_RANK", "1");
    }
    let ended = output(command);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    says(&ended.stderr, words);
}
