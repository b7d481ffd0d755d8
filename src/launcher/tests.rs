//! Each launcher with variables that it sets in practice, and faults in them.

use super::{RendezvousAddress, Variables, find};
use crate::error::{Error, LaunchFault};

/// The launcher, rank, size, local rank, and where the ranks meet.
#[track_caller]
fn found(lines: &str) -> (&'static str, u32, usize, Option<u32>, Vec<String>) {
    let variables = Variables::of(lines);
    let found = find(&variables).expect("they read").expect("there is a launcher");
    let launched = found.launched.clone();
    let place = found.place(&variables).expect("the place is known");
    (launched.launcher, launched.rank, launched.size, launched.local_rank, place.addresses)
}

#[track_caller]
fn fault(lines: &str, words: &[&str]) -> LaunchFault {
    let variables = Variables::of(lines);
    let error = find(&variables).and_then(|found| match found {
        Some(found) => found.place(&variables).map(drop),
        None => Ok(()),
    });
    let Err(error) = error else { panic!("no error for {lines}") };
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
    match error {
        Error::BadLaunch(bad) => bad.why,
        other => panic!("{other}"),
    }
}

const TORCHRUN: &str = "GROUP_RANK=1 GROUP_WORLD_SIZE=2 LOCAL_RANK=3 LOCAL_WORLD_SIZE=4
    MASTER_ADDR=node7 MASTER_PORT=29500 OMP_NUM_THREADS=1 RANK=7 ROLE_NAME=default ROLE_RANK=7
    ROLE_WORLD_SIZE=8 TORCHELASTIC_MAX_RESTARTS=0 TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_RUN_ID=none
    TORCHELASTIC_USE_AGENT_STORE=True TORCH_NCCL_ASYNC_ERROR_HANDLING=1 WORLD_SIZE=8";

const SRUN: &str = "SLURM_JOB_ID=4711 SLURM_JOB_NODELIST=gpu[01-04] SLURM_JOB_NUM_NODES=4
    SLURM_LOCALID=1 SLURM_NNODES=2 SLURM_NODEID=1 SLURM_NTASKS=4 SLURM_PROCID=3 SLURM_STEP_ID=0
    SLURM_STEP_NODELIST=gpu[02-03] SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS=4 SLURM_NPROCS=4
    SLURM_DISTRIBUTION=block SLURM_JOBID=4711 SLURM_STEPID=0";

const OPEN_MPI: &str = "OMPI_APP_CTX_NUM_PROCS=2 OMPI_COMM_WORLD_LOCAL_RANK=1
    OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_NODE_RANK=1 OMPI_COMM_WORLD_RANK=1
    OMPI_COMM_WORLD_SIZE=2 OMPI_MCA_ess_base_jobid=72941569 OMPI_UNIVERSE_SIZE=2
    PMIX_HOSTNAME=vm PMIX_NAMESPACE=72941569 PMIX_RANK=1";

/// Without the process that all ranks descend from.
const HYDRA: &str =
    "HYDI_CONTROL_FD=7 MPI_LOCALNRANKS=2 MPI_LOCALRANKID=0 PMI_FD=6 PMI_RANK=0 PMI_SIZE=2";

const FLUX: &str = "FLUX_JOB_ID=f2Xyz9 FLUX_JOB_NNODES=1 FLUX_JOB_SIZE=4 FLUX_TASK_LOCAL_ID=2
    FLUX_TASK_RANK=2 FLUX_URI=local:///run/flux/local PMI_FD=20 PMI_RANK=2 PMI_SIZE=4";

const PALS: &str =
    "PALS_APID=0d4e-11 PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=4 PALS_NODEID=0 PALS_RANKID=1
    PMI_RANK=1 PMI_SIZE=4 PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=4";

const MVAPICH: &str = "MPIRUN_HOST=vm MPIRUN_ID=812 MV2_COMM_WORLD_LOCAL_RANK=0
    MV2_COMM_WORLD_LOCAL_SIZE=2 MV2_COMM_WORLD_RANK=0 MV2_COMM_WORLD_SIZE=2";

#[test]
fn torchrun_meets_beside_its_own_port() {
    let ports = [29501, 29502, 29503, 29504].map(|port| format!("node7:{port}")).to_vec();
    assert_eq!(found(TORCHRUN), ("torchrun", 7, 8, Some(3), ports));
    // New processes do not find what old ones left behind.
    let job = |lines: &str| {
        let variables = Variables::of(lines);
        find(&variables).unwrap().unwrap().place(&variables).unwrap().job.unwrap()
    };
    let again = TORCHRUN.replace("RESTART_COUNT=0", "RESTART_COUNT=1");
    assert_ne!(job(TORCHRUN), job(&again));
    let last = TORCHRUN.replace("=29500", "=65534").replace("node7", "fd00::7");
    assert_eq!(found(&last).4[0], "[fd00::7]:65530");
    fault(&TORCHRUN.replace("=29500", "=http"), &["MASTER_PORT is `http`"]);
}

#[test]
fn srun_meets_on_the_first_machine_of_the_step() {
    let (launcher, rank, size, local, addresses) = found(SRUN);
    assert_eq!((launcher, rank, size, local), ("srun", 3, 4, Some(1)));
    assert!(addresses.len() == 4 && addresses.iter().all(|at| at.starts_with("gpu02:")));
    // Another step of the job has other ports.
    assert_ne!(addresses, found(&SRUN.replace("SLURM_STEP_ID=0", "SLURM_STEP_ID=1")).4);
    let one = SRUN.replace("gpu[02-03]", "gpu02");
    assert!(found(&one).4[0].starts_with("127.0.0.1:"));
    let old = SRUN.replace("SLURM_STEP_NODELIST", "NONE").replace("SLURM_STEP_NUM_TASKS", "NONE");
    assert!(found(&old).4[0].starts_with("gpu01:"));
    let words = ["SLURM_STEP_NODELIST is `gpu[`", "TYPED_NCCL_ADDRESS"];
    fault(&SRUN.replace("gpu[02-03]", "gpu["), &words);
    // Rank 0 may be anywhere.
    let placed = SRUN.replace("=block", "=arbitrary");
    assert!(matches!(fault(&placed, &["TYPED_NCCL_ADDRESS"]), LaunchFault::NoAddress { .. }));
}

#[test]
fn a_batch_script_is_no_rank() {
    // The variables of salloc and sbatch, then Slurm's step numbers that are not steps.
    let batch = SRUN.replace("SLURM_STEP_ID", "NONE");
    assert!(find(&Variables::of(&batch)).unwrap().is_none());
    for step in ["4294967291", "4294967290"] {
        let shell = SRUN.replace("SLURM_STEP_ID=0", &format!("SLURM_STEP_ID={step}"));
        assert!(find(&Variables::of(&shell)).unwrap().is_none());
    }
}

#[test]
fn mpirun_of_open_mpi() {
    let (launcher, rank, size, local, addresses) = found(OPEN_MPI);
    assert_eq!((launcher, rank, size, local), ("Open MPI's mpirun", 1, 2, Some(1)));
    assert!(addresses[0].starts_with("127.0.0.1:"));
    let five = OPEN_MPI
        .replace("OMPI_MCA_ess_base_jobid=72941569", "")
        .replace("=72941569", "=prterun-vm-26791@1");
    assert_ne!(found(&five).4, addresses);
    // Two machines.
    let two = OPEN_MPI.replace("WORLD_SIZE=2", "WORLD_SIZE=4");
    let words = [
        "rank 1 of 4",
        "2 of them on this machine",
        "TYPED_NCCL_ADDRESS=host:port",
        "mpirun -x TYPED_NCCL_ADDRESS=node1:29400",
    ];
    assert!(matches!(fault(&two, &words), LaunchFault::NoAddress { here: Some(2), .. }));
    let told = format!("{two} TYPED_NCCL_ADDRESS=node1:29400");
    assert_eq!(found(&told).4, ["node1:29400"]);
}

#[test]
fn hydra_needs_an_address_where_it_cannot_be_found() {
    let words = ["Hydra", "rank 0 of 2", "mpiexec -genv TYPED_NCCL_ADDRESS node1:29400"];
    assert!(matches!(fault(HYDRA, &words), LaunchFault::NoAddress { here: Some(2), .. }));
    let (launcher, rank, size, local, addresses) =
        found(&format!("{HYDRA} TYPED_NCCL_ADDRESS=vm:1"));
    assert!(launcher.starts_with("Hydra"));
    assert_eq!((rank, size, local, addresses), (0, 2, Some(0), vec!["vm:1".to_owned()]));
}

#[test]
fn the_others() {
    for (lines, expected) in [
        (FLUX, ("Flux", 2, 4, Some(2))),
        (PALS, ("PALS", 1, 4, Some(1))),
        (MVAPICH, ("MVAPICH's launcher", 0, 2, Some(0))),
    ] {
        let (launcher, rank, size, local, addresses) = found(lines);
        assert_eq!((launcher, rank, size, local), expected);
        assert!(addresses[0].starts_with("127.0.0.1:"), "{addresses:?}");
    }
    let words = ["Flux", "TYPED_NCCL_ADDRESS=node1:29400 flux run"];
    fault(&FLUX.replace("NNODES=1", "NNODES=2"), &words);
    let own =
        "TYPED_NCCL_RANK=1 TYPED_NCCL_SIZE=2 TYPED_NCCL_LOCAL_RANK=1 TYPED_NCCL_ADDRESS=[::1]:9";
    assert_eq!(found(own).4, ["[::1]:9"]);
}

#[test]
fn the_innermost_launcher_counts() {
    // One torchrun on each machine of a step: rank 3 of 4 there.
    assert_eq!(found(&format!("{SRUN} {TORCHRUN}")).0, "torchrun");
    assert_eq!(found(&format!("{OPEN_MPI} {TORCHRUN}")).0, "torchrun");
    // Slurm starts the daemons of mpirun.
    assert_eq!(found(&format!("{SRUN} {OPEN_MPI}")).0, "Open MPI's mpirun");
    assert_eq!(found(&format!("{SRUN} {FLUX}")).0, "Flux");
    // The PMI variables are Slurm's own here, not an incomplete set of Hydra's.
    assert_eq!(found(&format!("{SRUN} PMI_RANK=3 PMI_SIZE=4 PMI_FD=9")).0, "srun");
    assert_eq!(found(&format!("{SRUN} PALS_RANKID=3 PALS_LOCAL_RANKID=1 PMI_SIZE=4")).0, "srun");
    // A script that derives PyTorch's variables from srun's.
    let script = "RANK=3 WORLD_SIZE=4 MASTER_ADDR=gpu02 MASTER_PORT=29500";
    assert_eq!(found(&format!("{SRUN} {script}")).3, None);
    // Variables that many scripts export before srun do not count as an incomplete set.
    assert_eq!(
        found(&format!("{SRUN} WORLD_SIZE=4 MASTER_ADDR=gpu02 MASTER_PORT=29500")).0,
        "srun"
    );
}

#[test]
fn who_numbers_the_ranks_alike_may_know_where_they_meet() {
    // Slurm started the rank, and Open MPI's library set its own variables.
    let mpi = OPEN_MPI.replace("RANK=1", "RANK=3").replace("WORLD_SIZE=2", "WORLD_SIZE=4");
    let (launcher, rank, size, _, addresses) = found(&format!("{SRUN} {mpi}"));
    assert_eq!((launcher, rank, size), ("Open MPI's mpirun", 3, 4));
    assert!(addresses[0].starts_with("gpu02:"), "{addresses:?}");
    // mpirun started it, and numbers it differently from Slurm.
    let other = mpi.replace("RANK=3", "RANK=2");
    let words = ["mpirun", "rank 2 of 4", "TYPED_NCCL_ADDRESS"];
    assert!(matches!(fault(&format!("{SRUN} {other}"), &words), LaunchFault::NoAddress { .. }));
    let unreadable = SRUN.replace("PROCID=3", "PROCID=x");
    assert_eq!(found(&format!("{unreadable} {OPEN_MPI}")).0, "Open MPI's mpirun");
    assert!(
        found(&format!("{PALS} {}", HYDRA.replace("RANK=0", "RANK=1").replace("SIZE=2", "SIZE=4")))
            .4[0]
            .starts_with("127.0.0.1:")
    );
}

#[test]
fn two_launchers_that_disagree() {
    let by_hand = "RANK=0 WORLD_SIZE=2 MASTER_ADDR=vm MASTER_PORT=29500";
    let words = ["OMPI_COMM_WORLD_RANK", "RANK, WORLD_SIZE", "rank 1 of 2", "rank 0 of 2", "unset"];
    let fault = fault(&format!("{OPEN_MPI} {by_hand}"), &words);
    assert!(matches!(fault, LaunchFault::TwoLaunchers { .. }));
    let same = by_hand.replace("RANK=0", "RANK=1");
    assert_eq!(found(&format!("{OPEN_MPI} {same}")).4[0], "vm:29501");
    // The two are one launcher.
    assert_eq!(found(&format!("{MVAPICH} {HYDRA}")).0, "MVAPICH's launcher");
}

#[test]
fn half_of_a_launchers_variables() {
    for (lines, words) in [
        ("RANK=1", ["RANK is set", "WORLD_SIZE, MASTER_ADDR, MASTER_PORT are not"]),
        ("RANK=1 WORLD_SIZE=2 MASTER_ADDR=vm", ["RANK, WORLD_SIZE are set", "MASTER_PORT is not"]),
        ("PMI_RANK=0 PMI_SIZE=2", ["PMI_RANK, PMI_SIZE are set", "MPI_LOCALRANKID is not"]),
        ("OMPI_COMM_WORLD_RANK=0", ["OMPI_COMM_WORLD_RANK is set", "OMPI_COMM_WORLD_SIZE"]),
        (
            "SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_JOB_ID=1",
            ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS is not"],
        ),
        ("TYPED_NCCL_RANK=0 TYPED_NCCL_SIZE=2", ["TYPED_NCCL_RANK", "TYPED_NCCL_ADDRESS are not"]),
        ("RANK=1 WORLD_SIZE=", ["RANK is set", "WORLD_SIZE,"]),
    ] {
        assert!(matches!(fault(lines, &words), LaunchFault::Half { .. }), "{lines}");
    }
}

#[test]
fn numbers_that_are_none() {
    for bad in ["x", "-1", "1.0", "99999999999", "0x1"] {
        let lines = OPEN_MPI.replace("WORLD_RANK=1", &format!("WORLD_RANK={bad}"));
        fault(&lines, &[&format!("OMPI_COMM_WORLD_RANK is `{bad}`")]);
    }
    for size in ["1", "0"] {
        let lines = OPEN_MPI.replace("WORLD_SIZE=2", &format!("WORLD_SIZE={size}"));
        let words = ["OMPI_COMM_WORLD_RANK is 1", &format!("OMPI_COMM_WORLD_SIZE is {size}")];
        assert!(matches!(fault(&lines, &words), LaunchFault::RankTooHigh { .. }));
    }
}

#[test]
fn nobody() {
    assert!(find(&Variables::of("HOME=/root LOCAL_RANK=3 MASTER_ADDR=vm")).unwrap().is_none());
    let error =
        |asked| LaunchFault::NoLauncher { asked, looked_for: super::looked_for() }.to_string();
    let alone = error(None);
    for word in ["RANK (torchrun)", "SLURM_PROCID (srun)", "FLUX_TASK_RANK (Flux)", "Seat::local"] {
        assert!(alone.contains(word), "{alone}");
    }
    let asked = error(Some("TYPED_NCCL=host:3,processes".to_owned()));
    assert!(
        asked.ends_with(
            "; TYPED_NCCL=host:3,processes starts ranks only in a program that calls `launch!`"
        ),
        "{asked}"
    );
    assert!(!alone.contains("launch!"), "{alone}");
}

#[test]
fn ports_follow_from_the_job() {
    let ports = |job: &str| RendezvousAddress::on("vm", job.to_owned()).addresses;
    assert_eq!(ports("a"), ports("a"));
    for job in 0..1000 {
        for address in ports(&job.to_string()) {
            let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
            assert!((20_000..32_000).contains(&port));
        }
    }
}
