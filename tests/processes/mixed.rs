//! Several threads in each of several processes, each a rank: they work together, and all of them
//! learn of failures.

use std::sync::Barrier;
use std::time::Duration;
use std::{env, panic, thread};

use typed_nccl::{
    AnyDevice, CommConfig, Communicator, Cuda, Device, Error, Host, Requirements, Result, Seat,
    Signals, Sum,
};

use crate::kills::{moves, runs, splits};
use crate::machine::{Run, Test};
use crate::ranks::Ended;

type Comm = Communicator<Cuda<AnyDevice>>;

/// Ranks of one process, of which there are two.
const THREADS: usize = 2;

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "threads_of_two_processes",
        program: || ranks(works),
        test: |run| tells(run, ["all is well"; 4]),
    },
    Test {
        name: "threads_of_two_processes_of_which_one_is_killed",
        program: || ranks(works_on),
        test: |run| {
            let mut ranks = run.ranks(2);
            ranks.hears(0, "rank 0 begins");
            ranks.kill(1);
            let said = outcomes(&[ranks.ended().swap_remove(0)]);
            assert_eq!(said.len(), THREADS, "{said:?}");
            for said in said {
                // Their deaths may be noticed one after the other.
                let lost = ["lost [2]", "lost [3]", "lost [2, 3]"];
                assert!(lost.iter().any(|lost| said.contains(&format!(": {lost}"))), "{said}");
                assert!(said.contains("its process is gone"), "{said}");
            }
        },
    },
    Test {
        name: "threads_of_two_processes_of_which_one_aborts",
        program: || ranks(one_aborts),
        test: |run| {
            let lost = "rank 1 left: it was aborted";
            tells(run, [lost, "all is well", lost, lost]);
        },
    },
    Test {
        name: "threads_of_two_processes_of_which_one_panics",
        program: || ranks(one_panics),
        test: |run| {
            let lost = "rank 2 left: its thread panicked";
            tells(run, [lost, lost, "it panicked", lost]);
        },
    },
    Test {
        name: "threads_of_two_processes_that_call_what_differs",
        program: || ranks(one_differs),
        test: |run| tells(run, ["on World differs between ranks"; 4]),
    },
    Test {
        name: "threads_of_two_processes_of_which_one_refuses",
        program: || ranks(one_refuses),
        test: |run| {
            let told = "rank 2 refused its part";
            tells(run, [told, told, "the receive buffer holds 3 f32", told]);
        },
    },
    Test {
        name: "threads_of_two_processes_of_which_one_refuses_a_put",
        program: || ranks(one_refuses_a_put),
        test: |run| {
            // The others are not involved, and learn that these two have ended.
            tells(run, ["rank ", "[5, 13)", "rank 1 refused its part", "rank "]);
        },
    },
    Test {
        name: "threads_of_a_process_that_hear_late_of_each_other",
        program: || ranks_on(Host::any, many_barriers),
        test: |run| {
            let mut ranks = run.ranks(2);
            ranks.hears(0, "rank 0 begins");
            for _ in 0..4 {
                // What its threads tell each other goes through the other process.
                ranks.signal(0, libc::SIGSTOP);
                thread::sleep(Duration::from_millis(300));
                ranks.signal(0, libc::SIGCONT);
                thread::sleep(Duration::from_millis(100));
            }
            let said = outcomes(&ranks.ended());
            let well = |said: &&String| said.ends_with(": all is well");
            assert_eq!(said.iter().filter(well).count(), 2 * THREADS, "{said:?}");
        },
    },
    Test {
        name: "threads_of_two_processes_put_behind_a_barrier_of_closures",
        program: || ranks_on(Host::any, put_behind_a_barrier),
        test: |run| tells(run, ["all is well"; 4]),
    },
    Test {
        name: "two_threads_of_a_process_put_into_one_window_of_another",
        program: || ranks_on(Host::any, both_put),
        test: |run| tells(run, ["all is well"; 4]),
    },
    Test {
        name: "a_thread_puts_into_what_another_one_sends_to_another_process",
        program: || ranks_on(Host::any, put_into_what_is_sent),
        test: |run| tells(run, ["all is well"; 4]),
    },
];

/// The error of each rank.
fn tells(run: &Run, told: [&str; 2 * THREADS]) {
    let ended = run.ranks(2).ended();
    let said = outcomes(&ended);
    assert_eq!(said.len(), told.len(), "{ended:?}");
    for (rank, (said, told)) in said.iter().zip(told).enumerate() {
        assert!(said.starts_with(&format!("rank {rank}: ")) && said.contains(told), "{ended:?}");
    }
}

/// The ranks' output, in order.
fn outcomes(ended: &[Ended]) -> Vec<String> {
    assert!(ended.iter().all(|ended| ended.status.success()), "{ended:?}");
    let lines = ended.iter().flat_map(|ended| ended.said.lines());
    let is_one = |line: &&str| line.starts_with("rank ") && line.contains(": ");
    let mut said: Vec<String> = lines.filter(is_one).map(str::to_owned).collect();
    said.sort_unstable();
    said
}

/// Runs the ranks of this process, each with a GPU. Each prints its error.
fn ranks(body: fn(Comm) -> Result<()>) -> Result<()> {
    ranks_on(Cuda::any, body)
}

fn ranks_on<D: Device>(
    device: fn(u32) -> Result<D>,
    body: fn(Communicator<D>) -> Result<()>,
) -> Result<()> {
    let text = |name: &str| env::var(name).expect("it is started as torchrun does");
    let number = |name: &str| text(name).parse::<usize>().expect("a number");
    let (process, size) = (number("RANK"), THREADS * number("WORLD_SIZE"));
    let address = &format!("{}:{}", text("MASTER_ADDR"), text("MASTER_PORT"));
    let live = |rank: usize| -> Result<()> {
        let config = CommConfig::builder().deadline(Duration::from_secs(30)).build();
        let seat = Seat::tcp(address, rank, size)?;
        let device = device(u32::try_from(rank).expect("a few"))?;
        let comm = Communicator::builder().seat(seat).device(device).config(config).build();
        body(comm.connect()?)
    };
    let lives = |rank: usize| {
        let outcome = panic::catch_unwind(|| live(rank));
        let told = match outcome {
            Ok(Ok(())) => "all is well".to_owned(),
            Ok(Err(error @ Error::PeerFailed(_))) => {
                let Error::PeerFailed(failed) = &error else { unreachable!("it is one") };
                let lost: Vec<_> = failed.lost.iter().map(|rank| rank.index()).collect();
                format!("lost {lost:?}: {error}")
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it panicked".to_owned(),
        };
        println!("rank {rank}: {}", told.replace('\n', " "));
    };
    thread::scope(|scope| {
        for rank in process * THREADS..(process + 1) * THREADS {
            scope.spawn(move || lives(rank));
        }
    });
    Ok(())
}

fn is(comm: &Comm, rank: usize) -> bool {
    comm.rank().index() == rank
}

fn works(mut comm: Comm) -> Result<()> {
    for _ in 0..3 {
        moves(&mut comm)?;
        splits(&mut comm)?;
        runs(&mut comm)?;
    }
    comm.finish()
}

fn works_on(mut comm: Comm) -> Result<()> {
    println!("rank {} begins", comm.rank());
    loop {
        moves(&mut comm)?;
    }
}

fn reduces(comm: &Comm, count: usize) -> Result<()> {
    let mut x = comm.device().zeros::<f32>(count)?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    comm.stream().sync()
}

fn one_aborts(comm: Comm) -> Result<()> {
    if is(&comm, 1) {
        drop(comm.abort_because("it has seen enough"));
        return Ok(());
    }
    reduces(&comm, 8)?;
    comm.finish()
}

fn one_panics(comm: Comm) -> Result<()> {
    assert!(!is(&comm, 2), "it is the one");
    reduces(&comm, 8)?;
    comm.finish()
}

fn one_differs(comm: Comm) -> Result<()> {
    reduces(&comm, if is(&comm, 3) { 9 } else { 8 })?;
    comm.finish()
}

fn one_refuses(comm: Comm) -> Result<()> {
    let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(32)?);
    let to = if is(&comm, 2) { 0..3 } else { 0..32 };
    comm.all_gather(&x, &mut y.slice_mut(to))?;
    comm.stream().sync()?;
    comm.finish()
}

/// A put to a thread of another process.
fn one_refuses_a_put(mut comm: Comm) -> Result<()> {
    let (source, window) = (comm.window::<f32>(8)?, comm.window::<f32>(8)?);
    match comm.rank().index() {
        1 => comm.put_signal(&source, 2, window.at(5))?,
        2 => {
            comm.wait_signal(1)?;
            window.to_vec()?;
        }
        _ => {}
    }
    comm.finish()
}

fn many_barriers(comm: Communicator<Host<AnyDevice>>) -> Result<()> {
    if comm.rank() == 0 {
        println!("rank 0 begins");
    }
    for _ in 0..400 {
        comm.barrier()?;
        thread::sleep(Duration::from_millis(5));
    }
    comm.finish()
}

/// The barrier keeps rank 2's put behind what rank 0 wrote before.
fn put_behind_a_barrier(mut comm: Communicator<Host<AnyDevice>>) -> Result<()> {
    let api = comm.device_api()?;
    let dev = comm.dev_comm(&api, &Requirements::new().lsa_barriers(1))?;
    let (source, mut window) = (comm.window::<f32>(8)?, comm.window::<f32>(8)?);
    for _ in 0..20 {
        let rank = comm.rank().index();
        if rank == 0 {
            comm.stream().launch(&mut window, |window, ()| window.fill(1.0))?;
        }
        comm.stream().launch((&dev,), |(dev,), ()| dev.lsa_barrier(0).sync())?;
        match rank {
            0 => {
                comm.wait_signal(2)?;
                assert_eq!(window.to_vec()?, [0.0; 8], "the put came later");
            }
            2 => comm.put_signal(&source, 0, window.at(0))?,
            _ => {}
        }
    }
    comm.close_dev_comm(dev)?;
    comm.finish()
}

/// Both write the same bytes at a time, which nothing orders: they are one's or the other's.
fn both_put(mut comm: Communicator<Host<AnyDevice>>) -> Result<()> {
    static TOGETHER: Barrier = Barrier::new(THREADS);
    const LEN: usize = 128 << 10;
    let rank = comm.rank().index();
    let window = comm.window::<u8>(LEN)?;
    let mut x = comm.window::<u8>(LEN)?;
    x.copy_from(&vec![1 + rank as u8; LEN])?;
    let mut mixed = 0;
    for _ in 0..300 {
        hazards_apart(comm.barrier())?;
        match rank {
            0 | 1 => {
                TOGETHER.wait();
                comm.put_signal(x.slice(0..LEN), 2, window.at(0))?;
            }
            2 => {
                for from in [0, 1] {
                    hazards_apart(comm.wait_signal(from))?;
                }
                let all = loop {
                    match window.to_vec() {
                        Ok(all) => break all,
                        Err(error) => hazards_apart(Err(error))?,
                    }
                };
                mixed += usize::from(all.iter().any(|byte| *byte != all[0]));
            }
            _ => {}
        }
    }
    assert_eq!(mixed, 0, "puts mixed");
    hazards_apart(comm.barrier())?;
    comm.finish()
}

/// Rank 1 writes what rank 0 sends at that time, which nothing orders: all ranks get it from before
/// a put or from after it.
fn put_into_what_is_sent(mut comm: Communicator<Host<AnyDevice>>) -> Result<()> {
    static TOGETHER: Barrier = Barrier::new(THREADS);
    const LEN: usize = 4096; // the most that is sent with the call
    const PUTS: usize = 8;
    let rank = comm.rank().index();
    let window = comm.window::<u8>(LEN)?;
    let mut x = comm.window::<u8>(PUTS * LEN)?;
    x.copy_from(&(0..PUTS * LEN).map(|at| (at / LEN) as u8).collect::<Vec<_>>())?;
    let mut y = comm.device().zeros::<u8>(2 * THREADS * LEN)?;
    let signals = [1; PUTS].into_iter().collect::<Signals>();
    let mut mixed = 0;
    for _ in 0..300 {
        hazards_apart(comm.barrier())?;
        if rank < THREADS {
            TOGETHER.wait();
        }
        if rank == 1 {
            for put in 0..PUTS {
                comm.put_signal(x.slice(put * LEN..(put + 1) * LEN), 0, window.at(0))?;
            }
        }
        comm.all_gather(window.slice(0..LEN), &mut y)?;
        if rank == 0 {
            hazards_apart(comm.wait_signals(&signals))?;
        }
        let all = loop {
            match y.to_vec() {
                Ok(all) => break all,
                Err(error) => hazards_apart(Err(error))?,
            }
        };
        mixed += usize::from(all[..LEN].iter().any(|byte| *byte != all[0]));
    }
    assert_eq!(mixed, 0, "a put and a send mixed");
    hazards_apart(comm.barrier())?;
    comm.finish()
}

/// The two puts are a mistake, which may be found.
fn hazards_apart(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(Error::Hazard(_)) => Ok(()),
        other => other,
    }
}
