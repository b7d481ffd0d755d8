//! A process that was stopped for so long that the others considered it dead, and then continues:
//! it gets that error, whichever rank it is, and the others have continued without it.
//!
//! `STOPS=20 cargo test -p tests --test processes a_process_that_was_stopped` does this 20 times,
//! with random victims.

use std::env;
use std::thread;
use std::time::Duration;

use typed_nccl::{CommConfig, Communicator, Device, Error, Result, Sum, World, launch, tag};

use crate::kills::below;
use crate::machine::{Run, Test, on_a_new_stage};
use crate::ranks::{Ranks, Sign};

tag!(Part);

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "a_process_that_was_stopped",
        program: || {
            let deadline = Duration::from_secs(15);
            launch!(works, CommConfig::builder().deadline(deadline).build())
        },
        test: |run| {
            let short = [
                (&[0][..], Others::Live),
                (&[2], Others::Live),
                (&[0], Others::HaveEnded),
                (&[0, 1], Others::Live),
                (&[1, 2], Others::HaveEnded),
            ];
            short.into_iter().for_each(|(victims, others)| stop(run, victims, others));
            let more = env::var("STOPS").ok().and_then(|n| n.parse::<u64>().ok());
            let mut random = 1;
            for _ in 0..more.unwrap_or(0) {
                let mut victims: Vec<_> = (0..SIZE).collect();
                while victims.len() > 2 || victims.len() == 2 && below(&mut random, 2) == 0 {
                    victims.remove(below(&mut random, victims.len() as u64) as usize);
                }
                let others = match below(&mut random, 100) {
                    ..50 => Others::Live,
                    _ => Others::HaveEnded,
                };
                println!("ranks {victims:?} are stopped; when they go on, {others:?}");
                stop(run, &victims, others);
            }
        },
    },
    Test {
        name: "a_process_that_was_stopped_while_it_recovered",
        program: || {
            let deadline = Duration::from_secs(15);
            launch!(works, CommConfig::builder().deadline(deadline).build())
        },
        test: |run| {
            let several = if env::var("STOPS").is_ok() { 12 } else { 2 };
            for nth in 0..several {
                stop_in_recovery(run, nth % 3, Duration::from_millis(nth as u64 * 13 % 90));
            }
        },
    },
    Test {
        name: "a_host_process_that_stays_stopped",
        program: || {
            let deadline = Duration::from_secs(15);
            launch!(works, CommConfig::builder().deadline(deadline).build())
        },
        test: |run| [0, 2].into_iter().for_each(|victim| stay_stopped(run, victim)),
    },
    Test {
        name: "a_host_process_that_was_stopped_in_a_copy",
        program: || {
            let deadline = Duration::from_secs(15);
            launch!(copies, CommConfig::builder().deadline(deadline).build())
        },
        test: |run| {
            let several = env::var("STOPS").ok().and_then(|n| n.parse::<u64>().ok());
            for nth in 0..several.unwrap_or(3) {
                stop_in_a_copy(run, Duration::from_millis(50 + 7 * nth));
            }
        },
    },
    Test {
        name: "a_host_process_that_stops_when_its_ranks_have_left",
        program: || {
            let deadline = Duration::from_secs(40);
            launch!(leaves_and_stops, CommConfig::builder().deadline(deadline).build())
        },
        test: stop_after_all,
    },
];

/// A rank of three stays stopped until the others have said far more than a log holds.
fn stay_stopped(run: &Run, victim: usize) {
    let mut ranks = Ranks::start(3, |_| {
        let mut command = run.bare();
        command.env("TYPED_NCCL_HEARTBEAT", BEAT).env("TYPED_NCCL", "host");
        // A log holds 1 MiB, and a step writes 800 bytes and more.
        command.env(STEPS, "2600");
        command
    });
    (0..3).for_each(|rank| ranks.hears(rank, "works"));
    ranks.signal(victim, libc::SIGSTOP);
    (0..3).filter(|rank| *rank != victim).for_each(|rank| ranks.ends(rank));
    ranks.signal(victim, libc::SIGCONT);
    for (rank, ended) in ranks.ended().into_iter().enumerate() {
        assert!(ended.status.success(), "rank {rank}, {victim} was stopped: {}", ended.said);
        let words = if rank == victim { "was left out" } else { "finished with 2" };
        assert!(ended.said.contains(words), "rank {rank}, {victim} was stopped: {}", ended.said);
    }
}

/// A process is stopped that shares no communicator any more, until the others have said more than
/// a log holds.
fn stop_after_all(run: &Run) {
    let mut jobs = ["finishes", "drops"].map(|how| {
        let ranks = Ranks::start(3, |_| {
            let mut command = run.bare();
            command.env("TYPED_NCCL", "host").env(HOW, how);
            command
        });
        (how, ranks)
    });
    for (_, ranks) in &mut jobs {
        [0, 1].into_iter().for_each(|rank| ranks.ends(rank));
        ranks.signal(2, libc::SIGCONT);
    }
    for (how, ranks) in jobs {
        for (rank, ended) in ranks.ended().into_iter().enumerate() {
            let words = if rank == 2 { "was stopped" } else { "took all steps" };
            let is_well = ended.status.success() && ended.said.contains(words);
            assert!(is_well, "rank {rank}, which {how} its communicator: {}", ended.said);
        }
    }
}

/// How the ranks leave what they share with the one that stops.
const HOW: &str = "TYPED_NCCL_TEST_HOW";

fn leaves_and_stops<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let stops = comm.rank().index() == 2;
    let part = comm.split::<Part>(u32::from(stops), 0)?;
    let finishes = env::var(HOW).is_ok_and(|how| how == "finishes");
    let kept = match finishes {
        true => comm.finish().map(|()| None)?,
        false => Some(comm),
    };
    if stops {
        drop((part, kept));
        // SAFETY: a system call on numbers.
        assert_eq!(unsafe { libc::raise(libc::SIGSTOP) }, 0);
        println!("was stopped");
        return Ok(());
    }
    (0..3000).try_for_each(|_| step(&part))?;
    println!("took all steps");
    drop(kept);
    part.finish()
}

/// Rank 1 is stopped while it copies from rank 0, which then writes over what was copied.
fn stop_in_a_copy(run: &Run, after: Duration) {
    let mut ranks = Ranks::start(2, |_| {
        let mut command = run.bare();
        command.env("TYPED_NCCL_HEARTBEAT", BEAT).env("TYPED_NCCL", "host");
        command
    });
    (0..2).for_each(|rank| ranks.hears(rank, "works"));
    thread::sleep(after);
    ranks.signal(1, libc::SIGSTOP);
    ranks.hears(0, "wrote over it");
    ranks.signal(1, libc::SIGCONT);
    for (rank, ended) in ranks.ended().into_iter().enumerate() {
        assert!(ended.status.success(), "rank {rank}, stopped after {after:?}: {}", ended.said);
    }
}

/// All elements of a transfer and of a gathered part are one number, or the rank gets an error.
fn copies<D: Device>(comm: Communicator<D>) -> Result<()> {
    const LEN: usize = 4 << 20;
    let (rank, device) = (comm.rank(), comm.device().clone());
    let mut own = device.zeros::<u64>(LEN)?;
    let (mut sent, mut all) = (device.zeros::<u64>(LEN)?, device.zeros::<u64>(2 * LEN)?);
    println!("works");
    let mut round = |number: u64| -> Result<()> {
        comm.stream().fill(&mut own, number)?;
        match rank.index() {
            0 => comm.send(&own, 1)?,
            _ => comm.recv(&mut sent, 0)?,
        }
        let expected = if rank.index() == 0 { 0 } else { number };
        assert!(sent.to_vec()?.iter().all(|x| *x == expected), "a transfer is torn: {number}");
        comm.all_gather(&own, &mut all)?;
        assert!(all.to_vec()?.iter().all(|x| *x == number), "gathered parts are torn: {number}");
        Ok(())
    };
    let told = (1..).find_map(|number| round(number).err()).expect("a peer stops, or is gone");
    assert!(told.is_peer_failure() || matches!(told, Error::Excluded(_)), "{told}");
    drop(comm);
    if rank.index() == 0 {
        // The stream reports the transfer that failed once more.
        let over = vec![u64::MAX; LEN];
        own.copy_from(&over).or_else(|_| own.copy_from(&over))?;
        println!("wrote over it");
    }
    Ok(())
}

/// Rank 3 is killed, and another one is stopped while the ranks recover.
fn stop_in_recovery(run: &Run, victim: usize, after: Duration) {
    on_a_new_stage();
    let over = Sign::new();
    let mut ranks = Ranks::start(SIZE, |_| {
        let mut command = run.on_gpus();
        over.is_for(command.env("TYPED_NCCL_HEARTBEAT", BEAT));
        command
    });
    (0..SIZE).for_each(|rank| ranks.hears(rank, "works"));
    ranks.kill(3);
    ranks.hears(victim, "told: ");
    thread::sleep(after);
    ranks.signal(victim, libc::SIGSTOP);
    (0..3).filter(|rank| *rank != victim).for_each(|rank| ranks.hears(rank, " of 2: "));
    ranks.signal(victim, libc::SIGCONT);
    ranks.hears(victim, "was left out");
    over.give();
    for (rank, ended) in ranks.ended().into_iter().enumerate().take(3) {
        let context = format!("rank {rank}, {victim} was stopped after {after:?}: {}", ended.said);
        assert!(ended.status.success(), "{context}");
        let words = if rank == victim { "was left out" } else { "finished with 2" };
        assert!(ended.said.contains(words), "{context}");
    }
}

const SIZE: usize = 4;

/// The others' state when the process continues, and until it is told.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Others {
    Live,
    HaveEnded,
}

/// The heartbeat, in seconds. A process that the system stops for three of them is left out too.
const BEAT: &str = "1.5";

/// How many steps the others then take at least.
const STEPS: &str = "TYPED_NCCL_TEST_STEPS";

fn stop(run: &Run, victims: &[usize], others: Others) {
    on_a_new_stage();
    let over = Sign::new();
    let mut ranks = Ranks::start(SIZE, |_| {
        let mut command = run.on_gpus();
        command.env("TYPED_NCCL_HEARTBEAT", BEAT);
        if others == Others::Live {
            over.is_for(&mut command);
        }
        command
    });
    (0..SIZE).for_each(|rank| ranks.hears(rank, "works"));
    victims.iter().for_each(|victim| ranks.signal(*victim, libc::SIGSTOP));
    let others_are = (0..SIZE).filter(|rank| !victims.contains(rank));
    for rank in others_are {
        match others {
            Others::Live => ranks.hears(rank, "goes on"),
            Others::HaveEnded => ranks.ends(rank),
        }
    }
    victims.iter().for_each(|victim| ranks.signal(*victim, libc::SIGCONT));
    victims.iter().for_each(|victim| ranks.hears(*victim, "was left out"));
    over.give();
    let rest = format!("finished with {}", SIZE - victims.len());
    for (rank, ended) in ranks.ended().into_iter().enumerate() {
        let context = format!("rank {rank}, {victims:?} were stopped, {others:?}: {}", ended.said);
        assert!(ended.status.success(), "{context}");
        let words = if victims.contains(&rank) { "was left out" } else { &*rest };
        assert!(ended.said.contains(words), "{context}");
    }
}

fn step<W: World>(comm: &Communicator<W>) -> Result<()> {
    let mut x = comm.device().from_slice(&[1_u64; 100])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    assert_eq!(x.to_vec()?, [comm.size() as u64; 100]);
    Ok(())
}

fn works<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    step(&comm)?;
    println!("works");
    let told = loop {
        if let Err(error) = step(&comm) {
            break error;
        }
        thread::sleep(Duration::from_millis(5));
    };
    println!("told: {told}");
    if let Error::Excluded(_) = told {
        return is_left_out(comm);
    }
    assert!(told.is_peer_failure(), "{told}");
    loop {
        match comm.recover() {
            Ok(recovery) => println!("goes on: {recovery}"),
            // An earlier error about the others remains the communicator's cause.
            Err(Error::Excluded(_)) => {
                assert!(matches!(comm.recover(), Err(Error::Excluded(_))));
                comm.abort();
                println!("was left out");
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        match lives_on(&comm) {
            Ok(()) => break,
            Err(Error::Excluded(_)) => return is_left_out(comm),
            Err(error) => assert!(error.is_peer_failure(), "{error}"),
        }
    }
    let size = comm.size();
    comm.finish()?;
    println!("finished with {size}");
    Ok(())
}

fn lives_on<D: Device>(comm: &Communicator<D>) -> Result<()> {
    // Together, so that all take the same number of steps.
    while *comm.agree(!Sign::is_given())?.max() {
        step(comm)?;
        thread::sleep(Duration::from_millis(5));
    }
    let steps = env::var(STEPS).ok().and_then(|number| number.parse().ok()).unwrap_or(0);
    (0..steps).try_for_each(|_| step(comm))
}

/// Whatever it calls, it gets the same error.
fn is_left_out<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let is_told = |what: &str, outcome: Result<()>| match outcome {
        Err(Error::Excluded(error)) => println!("{what}: {error}"),
        outcome => panic!("{what}: {outcome:?}"),
    };
    is_told("a step", step(&comm));
    is_told("a barrier", comm.barrier());
    is_told("values", comm.gather_values(&1).map(drop));
    for _ in 0..2 {
        let recovered = comm.recover();
        is_told("recover", recovered.map(drop));
    }
    is_told("health", comm.health().map(drop));
    comm.abort();
    println!("was left out");
    Ok(())
}
