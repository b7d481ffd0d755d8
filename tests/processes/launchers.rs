//! Ranks started by a launcher: its variables set by hand, and Open MPI's and MPICH's own if they
//! are installed.

use std::env;
use std::process::{Child, Command, Output};

use typed_nccl::{Communicator, Device, Result, Seat, World, launch};

use crate::machine::{Run, Test, lines, output, says, wait, with_gpus};
use crate::ranks::free_port;

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "two_processes_of_our_own_launcher",
        program: || launch!(meets),
        test: |run| {
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", "cuda:2");
            let ended = output(command);
            assert!(ended.status.success(), "{ended:?}");
            assert_eq!(lines(&ended.stdout), MET.map(|line| format!("[{}] {line}", &line[5..6])));
        },
    },
    Test {
        name: "our_own_launcher_holds_the_port",
        program: || {
            let rank = env::var("TYPED_NCCL_RANK").unwrap_or_default();
            if rank == "1" {
                let address = env::var("TYPED_NCCL_ADDRESS").expect("it was told");
                let taken = std::net::TcpListener::bind(address).expect_err("it is rank 0's");
                assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
            } else if rank == "0" {
                std::thread::sleep(std::time::Duration::from_millis(500));
            }
            launch!(meets)?;
            // And for the next communicator.
            launch!(meets)
        },
        test: |run| {
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", "cuda:2");
            let ended = output(command);
            assert!(ended.status.success(), "{ended:?}");
            assert_eq!(lines(&ended.stdout).len(), 4, "{ended:?}");
        },
    },
    Test {
        name: "the_rank_that_fails_is_named_to_the_other",
        program: || launch!(one_fails),
        test: |run| {
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", "cuda:2");
            let ended = output(command);
            assert_eq!(ended.status.code(), Some(1), "{ended:?}");
            says(&ended.stderr, &["[1] Error: the disk is full", "the first to fail was rank 1"]);
        },
    },
    Test {
        name: "torchrun",
        program: || launch!(meets),
        test: |run| {
            let port = free_port();
            let started = (0..2).map(|rank| torchrun(run, rank, port).spawn().expect("it starts"));
            met(started.collect());
        },
    },
    Test {
        name: "two_jobs_of_torchrun_that_try_one_port",
        program: || launch!(meets),
        test: |run| {
            let port = free_port();
            let start = |(job, rank): (&str, usize)| {
                let mut command = torchrun(run, rank, port);
                command.env("TORCHELASTIC_RUN_ID", job).spawn().expect("it starts")
            };
            let [a0, b1, a1, b0] = [("a", 0), ("b", 1), ("a", 1), ("b", 0)].map(start);
            met(vec![a0, a1]);
            met(vec![b0, b1]);
        },
    },
    Test {
        name: "one_communicator_after_the_other",
        program: || {
            launch!(meets)?;
            launch!(meets)?;
            Seat::from_env()?.init(typed_nccl::Cuda::local()?)?.finish()
        },
        test: |run| {
            let port = free_port();
            let started = (0..2).map(|rank| torchrun(run, rank, port).spawn().expect("it starts"));
            for (rank, ended) in started.collect::<Vec<_>>().into_iter().map(wait).enumerate() {
                assert!(ended.status.success(), "{ended:?}");
                assert_eq!(lines(&ended.stdout), [MET[rank]; 2]);
            }
        },
    },
    Test {
        name: "srun",
        program: || launch!(meets),
        test: |run| {
            let start = |rank: usize| {
                let mut command = run.on_gpus();
                command.env("SLURM_JOB_ID", std::process::id().to_string());
                command.envs([("SLURM_STEP_ID", "0"), ("SLURM_STEP_NODELIST", "gpu[7]")]);
                command.env("SLURM_PROCID", rank.to_string()).env("SLURM_NTASKS", "2");
                command.env("SLURM_LOCALID", rank.to_string());
                command.spawn().expect("it starts")
            };
            met(vec![start(0), start(1)]);
        },
    },
    Test {
        name: "what_was_recognised_is_logged",
        program: || {
            log::set_logger(&ToError).expect("it is the first");
            log::set_max_level(log::LevelFilter::Info);
            launch!(meets)
        },
        test: |run| {
            let port = free_port();
            let started = (0..2).map(|rank| torchrun(run, rank, port).spawn().expect("it starts"));
            for (rank, ended) in started.collect::<Vec<_>>().into_iter().map(wait).enumerate() {
                let first = format!("127.0.0.1:{}", port + 1);
                says(
                    &ended.stderr,
                    &["torchrun", &format!("rank {rank} of 2 (RANK, WORLD_SIZE)"), &first],
                );
            }
        },
    },
    Test {
        name: "open_mpi",
        program: || launch!(meets),
        test: |run| {
            let options = ["--oversubscribe", "--allow-run-as-root", "-n", "2"];
            mpirun(run, &OPEN_MPI, &options);
        },
    },
    Test {
        name: "mpich",
        program: || launch!(meets),
        test: |run| mpirun(run, &MPICH, &["-n", "2"]),
    },
    Test {
        name: "mpich_with_a_wrong_secret",
        program: || launch!(meets),
        test: |run| {
            let Some(name) = installed(&MPICH) else { return };
            let program = program();
            let rank = |secret| ["-n", "1", "-env", "TYPED_NCCL_SECRET", secret, &program];
            let options = [&rank("a")[..], &[":"], &rank("another")].concat();
            let Output { status, stderr, .. } = output(with_gpus(run.by(name, &options)));
            let said = String::from_utf8_lossy(&stderr);
            assert!(!status.success(), "{said}");
            let told: Vec<_> = said.lines().filter(|line| line.starts_with("Error:")).collect();
            let is_told = |line: &&str| line.contains("TYPED_NCCL_SECRET must be the same");
            assert!(told.len() == 2 && told.iter().all(is_told), "{said}");
        },
    },
    #[cfg(feature = "mpi")]
    Test {
        name: "seats_of_an_mpi_communicator",
        program: by_mpi,
        test: |run| {
            let options = ["--oversubscribe", "--allow-run-as-root", "-n", "2"];
            mpirun(run, &OPEN_MPI, &options);
        },
    },
];

/// In the order of MPI's ranks, and then alone, in pairs of one.
#[cfg(feature = "mpi")]
fn by_mpi() -> Result<()> {
    use mpi::topology::Color;
    use mpi::traits::Communicator as _;
    use typed_nccl::Cuda;

    let universe = mpi::initialize().expect("MPI starts once");
    let world = universe.world();
    meets(Seat::mpi(&world)?.init(Cuda::local()?)?)?;
    let alone = world.split_by_color(Color::with_value(world.rank())).expect("it has a colour");
    let comm = Seat::mpi(&alone)?.init(Cuda::local()?)?;
    assert_eq!((comm.rank().index(), comm.size()), (0, 1));
    comm.finish()
}

/// Prints log records.
struct ToError;

impl log::Log for ToError {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        eprintln!("{}", record.args());
    }

    fn flush(&self) {}
}

/// The output of two ranks.
const MET: [&str; 2] = [
    "rank 0 of 2 on cuda:0, with [\"cuda:0\", \"cuda:1\"]",
    "rank 1 of 2 on cuda:1, with [\"cuda:0\", \"cuda:1\"]",
];

fn meets<D: Device>(comm: Communicator<D>) -> Result<()> {
    comm.barrier()?;
    let own = format!("{:?}", comm.device());
    let devices = comm.gather_values(&own)?;
    println!("rank {} of {} on {own}, with {devices:?}", comm.rank(), comm.size());
    comm.finish()
}

fn one_fails<W: World>(comm: Communicator<W>) -> Result<()> {
    if comm.rank().index() == 1 {
        return Err(typed_nccl::Error::other("the disk is full"));
    }
    comm.barrier()?;
    comm.finish()
}

fn met(ranks: Vec<Child>) {
    for (rank, ended) in ranks.into_iter().map(wait).enumerate() {
        assert!(ended.status.success(), "{ended:?}");
        assert_eq!(lines(&ended.stdout), [MET[rank]], "{ended:?}");
    }
}

/// Rank `rank` of two.
fn torchrun(run: &Run, rank: usize, port: u16) -> Command {
    let mut command = run.on_gpus();
    command.env("RANK", rank.to_string()).env("LOCAL_RANK", rank.to_string());
    command.env("WORLD_SIZE", "2").env("TORCHELASTIC_RUN_ID", "none");
    command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
    command
}

/// The names of an mpirun, and what its version says.
pub(crate) type Mpirun = ([&'static str; 2], &'static str);

pub(crate) const OPEN_MPI: Mpirun = (["mpirun.openmpi", "mpirun"], "Open MPI");
pub(crate) const MPICH: Mpirun = (["mpirun.mpich", "mpirun"], "HYDRA");

/// Its name here, if it is installed.
pub(crate) fn installed((names, whose): &Mpirun) -> Option<&'static str> {
    let is_it = |name: &&str| {
        let asked = Command::new(name).arg("--version").output();
        asked.is_ok_and(|asked| String::from_utf8_lossy(&asked.stdout).contains(whose))
    };
    let name = names.iter().copied().find(is_it);
    if name.is_none() {
        println!("SKIPPED: no mpirun of {whose}'s is installed");
    }
    name
}

pub(crate) fn program() -> String {
    env::current_exe().expect("a test is a program").display().to_string()
}

/// Two ranks started by a launcher that may not be installed.
fn mpirun(run: &Run, which: &Mpirun, options: &[&str]) {
    let Some(name) = installed(which) else { return };
    let program = program();
    let command = with_gpus(run.by(name, &[options, &[&program]].concat()));
    let Output { status, stdout, stderr } = output(command);
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{status}: {said}");
    assert_eq!(lines(&stdout), MET, "{said}");
}
