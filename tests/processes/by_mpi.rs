//! Ranks without GPUs on two machines, by mpirun on the first one. Needs the permission
//! to make machines.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, id};
use std::sync::mpsc;
use std::time::Duration;
use std::{hint, thread};

use mpi::Threading;
use mpi::environment::library_version;
use typed_nccl::{
    Communicator, Device, Error, Host, Max, Requirements, Result, Seat, Signals, Sum, launch, tag,
};

use crate::launchers::{MPICH, OPEN_MPI, installed, program};
use crate::machine::{Run, Test, example, lines, output, says};
use crate::machines::Machines;

tag!(Half);

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "every_operation_between_machines",
        program: || launch!(every_operation),
        test: |run| {
            for each in [1, 2] {
                let Some(ended) = mpirun(run, "o", [each; 2], false, &program()) else { return };
                assert!(ended.status.success(), "{ended:?}");
                assert_eq!(lines(&ended.stdout), vec!["verified"; 2 * each], "{ended:?}");
            }
        },
    },
    Test {
        name: "calls_that_differ_between_machines",
        program: || launch!(differs),
        test: |run| {
            let Some(ended) = mpirun(run, "d", [1, 1], false, &program()) else { return };
            assert!(ended.status.success(), "{ended:?}");
            let told = lines(&ended.stdout);
            assert_eq!(told.len(), 2, "{ended:?}");
            let both = ["rank 0 called all_reduce of 5000", "rank 1 called all_reduce of 6000"];
            told.iter().for_each(|told| says(told.as_bytes(), &both));
        },
    },
    Test {
        name: "a_rank_on_another_machine_that_dies",
        program: || launch!(dies),
        test: |run| {
            let Some(ended) = mpirun(run, "k", [2, 1], true, &program()) else { return };
            let said = lines(&ended.stdout);
            let lost = said.iter().filter(|line| line.starts_with("lost: [Rank(2)]")).count();
            let go_on = said.iter().filter(|line| *line == "2 of 3 go on").count();
            assert_eq!((lost, go_on), (2, 2), "{ended:?}");
        },
    },
    Test {
        name: "a_put_into_a_window_that_a_closure_uses_between_machines",
        program: into_a_window_in_use,
        test: |run| {
            let Some(ended) = mpirun(run, "u", [1, 1], false, &program()) else {
                return;
            };
            assert!(ended.status.success(), "{ended:?}");
            assert_eq!(lines(&ended.stdout), ["verified"; 2], "{ended:?}");
        },
    },
    Test {
        name: "seats_of_mpi_on_two_machines",
        program: by_mpi,
        test: |run| {
            let Some(ended) = mpirun(run, "w", [1, 1], false, &program()) else { return };
            assert!(ended.status.success(), "{ended:?}");
            assert_eq!(lines(&ended.stdout), ["verified"; 2], "{ended:?}");
        },
    },
    Test {
        name: "examples_on_two_machines",
        program: || launch!(every_operation),
        test: |run| {
            for (name, said) in [
                ("quickstart", "all verified"),
                ("halo2d", "50 exchanges on a periodic grid of 2 x 2 verified"),
                ("tensor_parallel", "rank 3: TensorParallel 1/2, DataParallel 1/2: verified"),
                ("trainer", "1000 steps on 4 ranks verified"),
                ("survivor", "rank 1 of 2: 200 steps verified"),
                ("checkpoints", "rank 1 of 2: 100 steps verified"),
            ] {
                let path = example(name).display().to_string();
                let dies = ["survivor", "checkpoints"].contains(&name);
                if dies && !is_open_mpi() {
                    println!("SKIPPED: {name}: MPICH 4.0 ends the ranks beside one that died");
                    continue;
                }
                let on = [2, if dies { 1 } else { 2 }];
                let Some(ended) = mpirun(run, "x", on, dies, &path) else { return };
                assert!(ended.status.success(), "{name}: {ended:?}");
                says(&ended.stdout, &[said]);
            }
        },
    },
];

/// So many ranks on each of two machines, by the MPI that these tests are built with. If one dies,
/// mpirun ends the job unless it `recovers`. Open MPI 4.1's then ends if two processes are
/// left, of three on both machines, and hangs if three of four are, whatever they run.
fn mpirun(run: &Run, name: &str, on: [usize; 2], recovers: bool, program: &str) -> Option<Output> {
    let is_open = is_open_mpi();
    let mpirun = installed(if is_open { &OPEN_MPI } else { &MPICH })?;
    let machines = Machines::new(name)?;
    machines.cable("wire", "10.77.0", 24);
    // Stands for ssh: its arguments are the machine and the words of a command line.
    let ssh = Removed(env::temp_dir().join(format!("typed-nccl-ssh.{}.{name}", id())));
    let words: Vec<String> = machines
        .arguments(1, &["sh", "-c"])
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', r"'\''")))
        .collect();
    fs::write(&ssh.0, format!("#!/bin/sh\nshift\nexec ip {} \"$*\"\n", words.join(" ")))
        .expect("there is room for it");
    fs::set_permissions(&ssh.0, fs::Permissions::from_mode(0o700)).expect("it is ours");
    let (agent, hosts) =
        (ssh.0.display().to_string(), format!("10.77.0.1:{},10.77.0.2:{}", on[0], on[1]));
    let ranks = (on[0] + on[1]).to_string();
    let mut options = vec![mpirun, "-n", &ranks];
    if is_open {
        options.extend(["--allow-run-as-root", "--bind-to", "none", "-H", &hosts]);
        options.extend(["--mca", "plm_rsh_agent", &agent]);
        options.extend(["-x", "TYPED_NCCL=host", "-x", "TYPED_NCCL_ADDRESS=10.77.0.1:29400"]);
        options.extend(recovers.then_some("--enable-recovery"));
    } else {
        options.extend(["-launcher", "rsh", "-launcher-exec", &agent, "-hosts", &hosts]);
        // The name of this machine leads the other one to itself.
        options.extend(["-localhost", "10.77.0.1", "-genv", "TYPED_NCCL", "host"]);
        options.extend(["-genv", "TYPED_NCCL_ADDRESS", "10.77.0.1:29400"]);
        options.extend(recovers.then_some("-disable-auto-cleanup"));
    }
    options.push(program);
    let words = machines.arguments(0, &options);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Some(output(run.by("ip", &words)))
}

fn is_open_mpi() -> bool {
    library_version().is_ok_and(|version| version.contains("Open MPI"))
}

/// A file that is removed when this is dropped.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// What travels with the call, what takes one message, and what takes several.
const LENGTHS: [usize; 3] = [3, 5000, 1_000_000];

fn every_operation<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    for len in LENGTHS {
        collectives(&comm, len)?;
        transfers(&mut comm, len)?;
        puts(&mut comm, len)?;
    }
    let (rank, size) = (comm.rank().index(), comm.size());
    // Each child has ranks of both machines.
    let child = comm.split::<Half>((rank % (size / 2)) as u32, 0)?;
    let mut x = child.device().from_slice(&vec![1_u32; 5000])?;
    child.all_reduce_in_place(&mut x, Sum)?;
    assert_eq!(x.to_vec()?, vec![2; 5000]);
    child.finish()?;
    let api = comm.device_api()?;
    let refused = comm.dev_comm(&api, &Requirements::new()).map(drop);
    let told = refused.expect_err("closures do not reach another machine").to_string();
    assert!(told.contains("ranks of one machine"), "{told}");
    println!("verified");
    comm.finish()
}

fn collectives<D: Device>(comm: &Communicator<D>, len: usize) -> Result<()> {
    let (rank, size, device) = (comm.rank().index() as i64, comm.size(), comm.device());
    let numbers = |rank: i64, len: usize| (0..len as i64).map(move |i| rank * 7 + i % 1000);
    let from = |rank, len| numbers(rank, len).collect::<Vec<_>>();
    let x = device.from_slice(&from(rank, len))?;
    let whole = device.from_slice(&from(rank, len * size))?;
    let mut y = device.zeros::<i64>(len)?;
    let mut all = device.zeros::<i64>(len * size)?;
    let ranks = || 0..size as i64;
    let sum = |at: usize| ranks().map(|rank| rank * 7 + at as i64 % 1000).sum::<i64>();

    comm.all_reduce(&x, &mut y, Sum)?;
    assert_eq!(y.to_vec()?, (0..len).map(sum).collect::<Vec<_>>());
    comm.all_reduce_in_place(&mut y, Max)?;
    assert_eq!(y.to_vec()?, (0..len).map(sum).collect::<Vec<_>>());
    comm.all_gather(&x, &mut all)?;
    assert_eq!(all.to_vec()?, ranks().flat_map(|rank| numbers(rank, len)).collect::<Vec<_>>());
    let own = rank as usize * len;
    comm.reduce_scatter(&whole, &mut y, Sum)?;
    assert_eq!(y.to_vec()?, (own..own + len).map(sum).collect::<Vec<_>>());
    comm.all_to_all(&whole, &mut all)?;
    let dealt = ranks().flat_map(|from| numbers(from, len * size).skip(own).take(len));
    assert_eq!(all.to_vec()?, dealt.collect::<Vec<_>>());
    let root = size - 1;
    comm.broadcast_in_place(&mut y, root)?;
    let last = root * len;
    assert_eq!(y.to_vec()?, (last..last + len).map(sum).collect::<Vec<_>>());
    if let Some(reduced) = comm.reduce(&x, Sum, root)? {
        assert_eq!(reduced.to_vec()?, (0..len).map(sum).collect::<Vec<_>>());
    }
    if let Some(gathered) = comm.gather(&x, root)? {
        let expected = ranks().flat_map(|rank| numbers(rank, len)).collect::<Vec<_>>();
        assert_eq!(gathered.to_vec()?, expected);
    }
    comm.sync(comm.stream())
}

fn transfers<D: Device>(comm: &mut Communicator<D>, len: usize) -> Result<()> {
    let (left, right) = (comm.ring(-1), comm.ring(1));
    let x = comm.device().from_slice(&vec![comm.rank().index() as u8; len])?;
    let mut y = comm.device().zeros::<u8>(len)?;
    comm.group(|g| g.send(&x, right).and_then(|()| g.recv(&mut y, left)))?;
    assert_eq!(y.to_vec()?, vec![left.index() as u8; len]);
    Ok(())
}

fn puts<D: Device>(comm: &mut Communicator<D>, len: usize) -> Result<()> {
    let (rank, left, right) = (comm.rank().index(), comm.ring(-1), comm.ring(1));
    let mut edge = comm.window::<f32>(len)?;
    let halo = comm.window::<f32>(2 * len)?;
    for turn in 0..3 {
        edge.copy_from(&vec![(10 * turn + rank) as f32; len])?;
        comm.put_signal(edge.slice(0..len), right, halo.at(len))?;
        comm.wait_signals(Signals::new().expect(left))?;
        assert_eq!(halo.to_vec()?[len..], vec![(10 * turn + left.index()) as f32; len]);
        // Nobody writes the next one before this one is read.
        comm.barrier()?;
    }
    Ok(())
}

/// The put waits for the closure, and the mistake is told.
fn into_a_window_in_use() -> Result<()> {
    let mut comm = Seat::from_env()?.init(Host::local()?)?;
    for len in LENGTHS {
        let mut window = comm.window::<u8>(len)?;
        let mut x = comm.window::<u8>(len)?;
        x.copy_from(&vec![7; len])?;
        if comm.rank() == 0 {
            comm.barrier()?;
            comm.put_signal(x.slice(0..len), 1, window.at(0))?;
        } else {
            let (starts, started) = mpsc::channel();
            let (ends, ended) = mpsc::channel();
            comm.stream().launch((&mut window,), move |(mine,), ()| {
                starts.send(()).expect("it is awaited");
                thread::sleep(Duration::from_millis(300));
                let changed = hint::black_box(mine).iter().any(|byte| *byte != 0);
                ends.send(changed).expect("it is awaited");
            })?;
            started.recv().expect("the closure starts");
            comm.barrier()?;
            let waited = comm.wait_signal(0).and_then(|()| window.to_vec().map(drop));
            let told = waited.expect_err("nothing orders the two");
            assert!(matches!(told, Error::Hazard(_)), "{told}");
            assert_eq!(ended.recv(), Ok(false), "the put came meanwhile");
            assert_eq!(window.to_vec()?, vec![7; len]);
        }
        comm.barrier()?;
    }
    println!("verified");
    comm.finish()
}

fn differs<D: Device>(comm: Communicator<D>) -> Result<()> {
    let mut x = comm.device().zeros::<f32>(5000 + 1000 * comm.rank().index())?;
    let called = comm.all_reduce_in_place(&mut x, Sum);
    let told = called.and_then(|()| x.to_vec().map(drop)).expect_err("the calls differ");
    println!("told: {}", told.to_string().replace('\n', " "));
    // It is a report: the communicator goes on.
    comm.barrier()?;
    comm.finish()
}

/// The last rank kills itself, and the others go on.
fn dies<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let (before, len) = (comm.size(), 1_000_000);
    let mut x = comm.device().zeros::<u32>(len)?;
    let mut rounds = 0;
    let error = loop {
        if rounds == 5 && comm.rank().index() == before - 1 {
            let own = id().to_string();
            let killed = Command::new("kill").args(["-9", &own]).status();
            panic!("it lives: {killed:?}");
        }
        let round = comm.all_reduce_in_place(&mut x, Sum);
        if let Err(error) = round.and_then(|()| comm.sync(comm.stream())) {
            break error;
        }
        rounds += 1;
    };
    let Error::PeerFailed(failed) = &error else { return Err(error) };
    println!("lost: {:?}: {error}", failed.lost);
    comm.recover()?;
    let mut x = comm.device().from_slice(&vec![1_u32; len])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    println!("{} of {before} go on", x.to_vec()?[len - 1]);
    comm.finish()
}

/// The program uses MPI itself.
fn by_mpi() -> Result<()> {
    let universe = mpi::initialize_with_threading(Threading::Multiple);
    let (universe, _) = universe.expect("MPI starts once");
    every_operation(Seat::mpi(&universe.world())?.init(Host::local()?)?)
}
