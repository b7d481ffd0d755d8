//! Ranks without GPUs as processes of one machine, on the host backend itself: no doubles.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::panic::resume_unwind;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, process, thread};

use typed_nccl::plan::Timing;
use typed_nccl::{
    AnyDevice, Buffer, CommConfig, Communicator, Device, Error, Host, Ordered, Result, Seat, Sum,
    launch, tag,
};

use crate::launchers::{MPICH, Mpirun, OPEN_MPI, installed, program};
use crate::machine::{Run, Test, example, lines, output, says};
use crate::ranks::{Ranks, Sign};

tag!(Child);

#[path = "../complex/body.rs"]
mod complex_body;

#[path = "../work/service.rs"]
mod service;

#[path = "../passed/body.rs"]
mod passed_body;

#[path = "../reads/body.rs"]
mod reads_body;

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "host_processes_of_our_own_launcher",
        program: || launch!(meets),
        test: |run| {
            let ended = own(run.bare(), "host:3,processes");
            assert!(ended.status.success(), "{ended:?}");
            assert_eq!(lines(&ended.stdout), MET.map(|line| format!("[{}] {line}", &line[5..6])));
            assert_eq!(ended.stderr, b"", "{ended:?}");
        },
    },
    Test {
        name: "host_processes_sum_complex_numbers",
        program: || launch!(sums_complex_numbers),
        test: |run| {
            let ended = own(run.bare(), "host:3,processes");
            assert!(ended.status.success(), "{ended:?}");
        },
    },
    Test {
        name: "host_processes_hear_of_a_closure_that_panics",
        program: || launch!(Host: hears_of_a_panic),
        test: |run| {
            let ended = own(run.bare(), "host:3,processes");
            assert!(ended.status.success(), "{ended:?}");
        },
    },
    Test {
        name: "host_processes_serve_more_requests_than_threads",
        program: || launch!(Host: serves),
        test: |run| {
            let ended = own(run.bare(), "host:2,processes");
            assert!(ended.status.success(), "{ended:?}");
        },
    },
    Test {
        name: "host_processes_pass_counts_until_one_dies",
        program: || launch!(passes_counts),
        test: |run| {
            let ended = own(run.bare(), "host:3,processes,survive");
            let told = lines(&ended.stdout);
            assert_eq!(
                told.iter().filter(|line| line.contains("it was told")).count(),
                2,
                "{ended:?}"
            );
        },
    },
    Test {
        name: "host_processes_return_a_value_each",
        program: || {
            let rank = launch!(meets_and_says_which)?;
            println!("this was rank {rank}");
            Ok(())
        },
        test: |run| {
            let ended = own(run.bare(), "host:2,processes");
            assert!(ended.status.success(), "{ended:?}");
            let returned: Vec<_> =
                lines(&ended.stdout).into_iter().filter(|line| line.contains("this was")).collect();
            assert_eq!(returned, ["[0] this was rank 0", "[1] this was rank 1"], "{ended:?}");
        },
    },
    Test {
        name: "host_processes_by_variables",
        program: || launch!(meets),
        test: |run| {
            for asked in [None, Some("host")] {
                let start = |_| {
                    let mut command = run.bare();
                    command.envs(asked.map(|asked| ("TYPED_NCCL", asked)));
                    command
                };
                for (rank, ended) in Ranks::start(3, start).ended().into_iter().enumerate() {
                    assert!(ended.status.success(), "{ended:?}");
                    assert!(ended.said.contains(MET[rank]), "{ended:?}");
                    // One line by rank 0 says where the ranks are, unless they were asked for.
                    let told = ended.said.contains("3 ranks run on the CPU; TYPED_NCCL=host");
                    assert_eq!(told, rank == 0 && asked.is_none(), "{ended:?}");
                    assert_eq!(ended.said.lines().count(), 1 + usize::from(told), "{ended:?}");
                }
            }
        },
    },
    Test {
        name: "host_processes_of_open_mpi",
        program: || launch!(meets),
        test: |run| {
            met(mpirun(run, &OPEN_MPI, &program()));
        },
    },
    Test {
        name: "host_processes_of_mpich",
        program: || launch!(meets),
        test: |run| met(mpirun(run, &MPICH, &program())),
    },
    Test {
        name: "host_processes_that_read_each_others_windows",
        program: || launch!(reads, CommConfig::builder().signals(3).build()),
        test: |run| {
            let ended = own(run.bare(), "host:3,processes");
            assert!(ended.status.success(), "{ended:?}");
        },
    },
    Test {
        name: "a_host_process_that_ends_before_it_is_read",
        program: || launch!(reads_of_the_dead),
        test: |run| {
            let ended = Ranks::start(3, |_| run.bare()).ended();
            for ended in &ended[..2] {
                assert!(ended.status.success(), "{ended:?}");
                assert!(ended.said.contains("the reader was told"), "{ended:?}");
            }
        },
    },
    Test {
        name: "host_seats_one_after_the_other",
        program: || {
            for _ in 0..3 {
                meets(Seat::from_env()?.init(Host::local()?)?)?;
            }
            Ok(())
        },
        test: |run| Ranks::start(3, |_| run.bare()).succeed(),
    },
    Test {
        name: "a_machine_with_gpus_and_one_without",
        program: || launch!(meets),
        test: |run| {
            let ranks = Ranks::start(2, |rank| if rank == 0 { run.on_gpus() } else { run.bare() });
            for ended in ranks.ended() {
                assert_eq!(ended.status.code(), Some(1), "{ended:?}");
                let told = "ranks 0 and 1 are on different kinds of device, cuda and host";
                says(ended.said.as_bytes(), &[told, "TYPED_NCCL=host"]);
            }
        },
    },
    Test {
        name: "all_ranks_in_each_host_process",
        program: || launch!(meets),
        test: |run| {
            let ranks = Ranks::start(2, |_| {
                let mut command = run.bare();
                command.env("TYPED_NCCL", "host:2,processes");
                command
            });
            for ended in ranks.ended() {
                assert_eq!(ended.status.code(), Some(1), "{ended:?}");
                let asked = "TYPED_NCCL=host:2,processes asks for all ranks";
                says(ended.said.as_bytes(), &[asked, "with TYPED_NCCL=host"]);
            }
        },
    },
    Test {
        name: "a_host_process_that_ends",
        program: || launch!(ends),
        test: |run| {
            for (way, code, said) in [
                ("kill", 128 + 9, "ended by signal 9"),
                ("leave", 3, "ended with exit code 3"),
                ("panic", 101, "ended with exit code 101"),
                ("error", 1, "ended with exit code 1"),
            ] {
                let mut command = run.bare();
                command.env(WAY, way);
                let ended = own(command, "host:3,processes");
                assert_eq!(ended.status.code(), Some(code), "{way}: {ended:?}");
                says(&ended.stderr, &["typed-nccl: the first to fail was rank 1 (process ", said]);
                for survivor in [0, 2] {
                    let lost = format!("[{survivor}] lost: [Rank(1)]");
                    let all = lines(&ended.stdout);
                    let lost = all.iter().find(|line| line.starts_with(&lost));
                    let lost = lost.unwrap_or_else(|| panic!("{ended:?}"));
                    let recovered = format!("[{survivor}] recovered: ");
                    let recovered = all.iter().find(|line| line.starts_with(&recovered));
                    let recovered = recovered.unwrap_or_else(|| panic!("{ended:?}"));
                    if way == "kill" {
                        for said in [lost, recovered] {
                            let known = "the last call that is known of it: all_reduce of 1 u32";
                            assert!(said.contains(known) && !said.contains("init at"), "{said}");
                        }
                    }
                }
            }
        },
    },
    Test {
        name: "a_host_process_that_ends_under_a_parent_that_ignores_its_children",
        program: || launch!(ends),
        test: |run| {
            for (way, code) in [("kill", 128 + 9), ("leave", 3), ("error", 1)] {
                let mut command = run.bare();
                // SAFETY: it takes numbers.
                let ignore = || match unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) } {
                    libc::SIG_ERR => Err(io::Error::last_os_error()),
                    _ => Ok(()),
                };
                // SAFETY: between fork and exec the closure makes one system call.
                unsafe { command.pre_exec(ignore) };
                command.env(WAY, way);
                let ended = own(command, "host:3,processes");
                assert_eq!(ended.status.code(), Some(code), "{way}: {ended:?}");
                says(&ended.stderr, &["the first to fail was rank 1 (process "]);
            }
        },
    },
    Test {
        name: "a_forked_child_of_a_host_process_that_exits",
        program: || launch!(forks),
        test: |run| {
            let ended = own(run.bare(), "host:2,processes");
            assert!(ended.status.success(), "{ended:?}");
        },
    },
    Test {
        name: "host_processes_with_little_address_space",
        program: || launch!(meets),
        test: |run| {
            let little = ["-c", "ulimit -v 12582912 && exec \"$0\"", &program()];
            let ended = own(run.by("sh", &little), "host:3,processes");
            assert!(ended.status.success(), "{ended:?}");
        },
    },
    Test {
        name: "a_host_process_that_aborts_after_a_barrier",
        program: || launch!(aborts_after_barriers),
        test: |run| {
            let ended = own(run.bare(), "host:3,processes");
            assert!(ended.status.success(), "{ended:?}");
        },
    },
    Test {
        name: "host_processes_that_go_on",
        program: || launch!(ends),
        test: |run| {
            for way in ["kill", "panic", "error"] {
                let mut command = run.bare();
                command.env(WAY, way);
                let ended = own(command, "host:3,processes,survive");
                assert!(ended.status.success(), "{way}: {ended:?}");
                says(&ended.stderr, &["typed-nccl: rank 1 (process "]);
                for survivor in [0, 2] {
                    says(&ended.stdout, &[&format!("[{survivor}] 2 of 3 go on")]);
                }
            }
        },
    },
    Test {
        name: "host_processes_that_call_what_differs",
        program: || launch!(differs),
        test: |run| {
            let ended = own(run.bare(), "host:2,processes");
            assert!(ended.status.success(), "{ended:?}");
            let said = lines(&ended.stdout);
            let of = |what: &str| -> Vec<&str> {
                said.iter().filter_map(|line| line.split_once(what).map(|(_, rest)| rest)).collect()
            };
            let (own, told) = (of("calls: "), of("told: "));
            assert_eq!((own.len(), told.len()), (2, 2), "{ended:?}");
            for told in told {
                says(told.as_bytes(), &own);
                says(told.as_bytes(), &["all_reduce of 3 f32", "all_reduce of 4 f32"]);
            }
        },
    },
    Test {
        name: "examples_as_host_processes",
        program: || Ok(()),
        test: |run| {
            let verified = [
                ("quickstart", "host:3,processes", "[0] all verified"),
                ("device_all_reduce", "host:3,processes", "[0] 3 ranks, host: all verified"),
                ("halo2d", "host:6,processes", "grid of 2 x 3 verified"),
                ("library", "host:3,processes", "[0] sums, norms and means over 3 ranks verified"),
                ("tensor_parallel", "host:8,processes", "[7] rank 7: TensorParallel 3/4"),
                ("trainer", "host:3,processes", "[0] 1000 steps on 3 ranks verified"),
                #[cfg(feature = "candle")]
                ("candle_ddp", "host:3,processes", "[0] 3 ranks, host: 100 losses verified"),
            ];
            for (name, asked, said) in verified {
                let ended = own(run.by(&example(name).to_string_lossy(), &[]), asked);
                assert!(ended.status.success(), "{name}: {ended:?}");
                says(&ended.stdout, &[said]);
            }
            for (name, steps) in [("survivor", 200), ("checkpoints", 100)] {
                let command = run.by(&example(name).to_string_lossy(), &[]);
                let ended = own(command, "host:4,processes,survive");
                assert!(ended.status.success(), "{name}: {ended:?}");
                says(&ended.stderr, &["rank 1 (process ", "ended by signal 6; the others go on"]);
                for (now, rank) in [0, 2, 3].into_iter().enumerate() {
                    let said = format!("[{rank}] rank {now} of 3: {steps} steps verified");
                    says(&ended.stdout, &[&said]);
                }
            }
        },
    },
    Test {
        name: "examples_of_mpirun",
        program: || Ok(()),
        test: |run| {
            let verified = [
                ("library", "sums, norms and means over 3 ranks verified"),
                ("quickstart", "all verified"),
                ("trainer", "1000 steps on 3 ranks verified"),
                #[cfg(feature = "candle")]
                ("candle_ddp", "3 ranks, host: 100 losses verified"),
            ];
            for (name, said) in verified {
                let program = example(name).to_string_lossy().into_owned();
                for ended in [OPEN_MPI, MPICH].iter().filter_map(|mpi| mpirun(run, mpi, &program)) {
                    assert!(ended.status.success(), "{name}: {ended:?}");
                    says(&ended.stdout, &[said]);
                }
            }
        },
    },
    Test {
        name: "a_host_process_that_exits_while_it_connects",
        program: exits_while_it_connects,
        test: |run| {
            let sign = Sign::new();
            let mut ranks = Ranks::start(3, |rank| {
                let mut command = run.bare();
                command.env("TYPED_NCCL", "host");
                if rank == 2 {
                    sign.is_for(&mut command);
                }
                command
            });
            ranks.hears(1, "it has come");
            ranks.ends(1);
            sign.give();
            let ended = ranks.ended();
            for rank in [0, 2] {
                assert!(ended[rank].said.contains("rank 1 left: "), "{ended:?}");
            }
        },
    },
];

/// The others come after rank 1, which has done its part, has ended.
fn exits_while_it_connects() -> Result<()> {
    while !Sign::is_given() {
        thread::sleep(Duration::from_millis(5));
    }
    let seat = Seat::from_env()?;
    let rank = seat.rank();
    let mut starting = seat.start(Host::any(rank.index() as u32)?)?;
    if rank != 1 {
        let error = starting.ready().wait().map(drop).expect_err("rank 1 is gone");
        println!("{error}");
        return Ok(());
    }
    loop {
        let failed = starting.try_ready(Instant::now() + Duration::from_millis(50));
        let failed = failed.map(drop).expect_err("rank 2 is missing");
        if failed.error.to_string().contains("arrived: 0 1") {
            println!("it has come");
            process::exit(0);
        }
        starting = failed.value;
    }
}

/// The output of three ranks.
const MET: [&str; 3] =
    ["rank 0 of 3 on host:0: 3", "rank 1 of 3 on host:1: 3", "rank 2 of 3 on host:2: 3"];

fn meets_and_says_which<D: Device>(comm: Communicator<D>) -> Result<usize> {
    let rank = comm.rank().index();
    comm.finish()?;
    Ok(rank)
}

/// The last rank ends after a few runs.
fn passes_counts<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let is_last = comm.rank().index() + 1 == comm.size();
    let ends = |run| if is_last && run == 5 { process::exit(7) } else { false };
    assert!(passed_body::runs(&mut comm, ends)?);
    println!("it was told");
    comm.abort();
    Ok(())
}

/// Requests come in opposite orders.
fn serves(comm: Communicator<Host<AnyDevice>>) -> Result<()> {
    let backwards = comm.rank().index() == 1;
    let service = Arc::new(Ordered::new(comm)?);
    match backwards {
        true => service::serve(&service, (0..50).rev())?,
        false => service::serve(&service, 0..50)?,
    }
    service::finish(service)
}

/// Numbers that a closure left unwritten reach no other process.
fn hears_of_a_panic<Tag>(comm: Communicator<Host<Tag>>) -> Result<()> {
    let mut x = comm.device().from_slice(&[1, 2])?;
    let panics = comm.rank().index() == 1;
    if panics {
        comm.stream().launch(&mut x, |_, ()| resume_unwind(Box::new("a test's panic")))?;
    }
    comm.all_reduce_in_place(&mut x, Sum)?;
    match x.to_vec() {
        Err(Error::Panicked(_)) if panics => {}
        Err(Error::Refused(refused)) => {
            let text = refused.to_string();
            assert!(refused.by.index() == 1 && text.contains("a test's panic"), "{text}");
        }
        other => panic!("{other:?} on rank {}", comm.rank()),
    }
    x.copy_from(&[1, 2])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    assert_eq!(x.to_vec()?, [3, 6]);
    comm.finish()
}

fn sums_complex_numbers<D: Device>(comm: Communicator<D>) -> Result<()> {
    complex_body::sum::<f32, _>(&comm, 40_001)?;
    complex_body::product(&comm, 1000)?;
    comm.finish()
}

fn meets<D: Device>(comm: Communicator<D>) -> Result<()> {
    let mut x = comm.device().from_slice(&[1_u32; 1000])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    let sum = x.to_vec()?[999];
    println!("rank {} of {} on {:?}: {sum}", comm.rank(), comm.size(), comm.device());
    comm.finish()
}

/// A child made by `fork` runs the process's exit functions, and has none of its threads.
fn forks<D: Device>(comm: Communicator<D>) -> Result<()> {
    comm.barrier()?;
    // SAFETY: the child does nothing but exit.
    let child = match unsafe { libc::fork() } {
        0 => process::exit(0),
        child => child,
    };
    let since = Instant::now();
    let mut status = 1;
    // SAFETY: the system writes the status, and the child is this process's.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        assert!(since.elapsed() < Duration::from_secs(15), "the child does not end");
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(status, 0);
    // This process still takes part.
    comm.barrier()?;
    comm.finish()
}

/// How rank 1 ends.
const WAY: &str = "HOST_PROCESSES_TEST_WAY";

/// Each round one rank ends its communicator as soon as it has passed a barrier. Nobody's barrier
/// fails of it.
fn aborts_after_barriers<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    for round in 0..200_usize {
        let child = comm.split::<Child>(0, 0)?;
        child.barrier()?;
        if comm.rank().index() == round % comm.size() {
            drop(child.abort());
        }
    }
    comm.barrier()
}

/// The others say whom they lost, and go on if they may.
fn ends<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let before = comm.size();
    let mut x = comm.device().from_slice(&[1_u32])?;
    let reduce = |comm: &Communicator<D>, x: &mut Buffer<u32, D>| {
        comm.all_reduce_in_place(x, Sum).and_then(|()| comm.sync(comm.stream()))
    };
    // A rank that is slow hears here already that rank 1 is gone.
    let first = reduce(&comm, &mut x);
    if comm.rank().index() == 1 {
        first?;
        match env::var(WAY).as_deref() {
            Ok("leave") => {
                // It says that it leaves, and ends before its last operation begins.
                let stream = comm.device().stream()?;
                stream.launch((), |(), _| thread::sleep(Duration::from_secs(600)))?;
                comm.on(&stream).all_reduce_in_place(&mut x, Sum)?;
                drop(comm);
                thread::sleep(Duration::from_millis(100));
                process::exit(3);
            }
            Ok("kill") => {
                let killed = Command::new("kill").args(["-9", &process::id().to_string()]).status();
                panic!("it lives: {killed:?}");
            }
            Ok("panic") => panic!("the disk is full"),
            _ => return Err(Error::other("the disk is full")),
        }
    }
    let mut reduced = first;
    let error = loop {
        match reduced {
            Ok(()) => reduced = reduce(&comm, &mut x),
            Err(error) => break error,
        }
    };
    let Error::PeerFailed(failed) = &error else { return Err(error) };
    println!("lost: {:?}: {error}", failed.lost);
    println!("recovered: {}", comm.recover()?);
    let mut x = comm.device().from_slice(&[1_u32])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    println!("{} of {before} go on", x.to_vec()?[0]);
    comm.finish()
}

/// Each rank prints where it calls, and what it is told.
fn differs<D: Device>(comm: Communicator<D>) -> Result<()> {
    let mut x = comm.device().from_slice(&[1_f32; 4])?;
    let (line, called) = match comm.rank().index() {
        0 => (line!(), comm.all_reduce_in_place(&mut x.slice_mut(0..3), Sum)),
        _ => (line!(), comm.all_reduce_in_place(&mut x, Sum)),
    };
    println!("calls: tests/processes/host.rs:{line}");
    let told = called.and_then(|()| x.to_vec().map(drop)).expect_err("the calls differ");
    println!("told: {}", told.to_string().replace('\n', " "));
    // It is a report: the communicator goes on.
    comm.barrier()?;
    comm.finish()
}

/// The program by our own launcher.
fn reads<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let rank = comm.rank().index() as u64;
    reads_body::every_plan(&mut comm, |round| Timing::Shaken(10 * round + rank))?;
    comm.finish()
}

/// The last rank ends after a few runs: the others' runs fail, and read nothing that is gone.
fn reads_of_the_dead<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    use reads_body::around;
    let (len, is_last) = (100_000, comm.rank().index() + 1 == comm.size());
    let mut bound = around::bind::<i32, _>(&mut comm, around::Params { len })?;
    let (x, mut y) = (comm.device().zeros::<i32>(len)?, comm.device().zeros::<i32>(len)?);
    for run in 0.. {
        if is_last && run == 3 {
            process::exit(7);
        }
        let ran = bound.run(&comm, around::Buffers { x: &x, y: &mut y });
        match ran.and_then(|()| y.to_vec()) {
            Ok(_) => {}
            Err(Error::PeerFailed(_)) => break,
            Err(other) => return Err(other),
        }
    }
    println!("the reader was told");
    comm.abort();
    Ok(())
}

fn own(mut command: Command, asked: &str) -> Output {
    command.env("TYPED_NCCL", asked);
    output(command)
}

/// Three ranks started by a launcher; `None` if it is not installed.
fn mpirun(run: &Run, which: &Mpirun, program: &str) -> Option<Output> {
    let options: &[&str] = match *which == OPEN_MPI {
        true => &["--oversubscribe", "--allow-run-as-root"],
        false => &[],
    };
    let mut command = run.by(installed(which)?, &[options, &["-n", "3", program]].concat());
    command.env("TYPED_NCCL", "host");
    Some(output(command))
}

fn met(ended: Option<Output>) {
    let Some(ended) = ended else { return };
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(lines(&ended.stdout), MET, "{ended:?}");
}
