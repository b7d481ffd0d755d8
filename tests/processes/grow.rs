//! Newcomers join from other processes: with only the invitation, in time or not at all.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{env, process, thread};

use nccl_sys::{ENVIRONMENT, Version};
use typed_nccl::{
    AnyDevice, CommConfig, Communicator, Cuda, Error, Initializing, Invitation, Rank, Result, Seat,
    Sum,
};

use crate::kills::{below, moves, splits};
use crate::machine::{LIMIT, Run, Test, release};
use crate::ranks::Ranks;

type Comm = Communicator<Cuda<AnyDevice>>;

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "processes_join_two_processes",
        program: || role(2, grows, joins),
        test: |run| start(run, 4, |_, _| {}).succeed(),
    },
    Test {
        name: "threads_and_a_process_join_threads",
        program: threads,
        test: |run| start(run, 2, |_, _| {}).succeed(),
    },
    Test {
        name: "a_process_that_does_not_come_is_named",
        program: || role(2, nobody_comes, |_, _| Ok(())),
        test: |run| start(run, 2, |_, _| {}).succeed(),
    },
    Test {
        name: "a_newcomer_that_is_killed_is_named",
        program: || role(2, loses_the_newcomer, waits_to_be_killed),
        test: |run| {
            let mut ranks = start(run, 3, |_, _| {});
            ranks.hears(2, "it has come");
            ranks.kill(2);
            let ended = ranks.ended();
            assert!(ended[..2].iter().all(|ended| ended.status.success()), "{ended:?}");
        },
    },
    Test {
        name: "a_member_that_is_killed_while_newcomers_are_awaited_is_named",
        program: || role(3, loses_a_member, |_, _| Ok(())),
        test: |run| {
            let mut ranks = start(run, 3, |_, _| {});
            (0..3).for_each(|rank| ranks.hears(rank, "it grows"));
            thread::sleep(Duration::from_millis(100));
            ranks.kill(1);
            let ended = ranks.ended();
            assert!(ended[0].status.success() && ended[2].status.success(), "{ended:?}");
        },
    },
    Test {
        name: "a_member_that_is_killed_at_any_moment_of_growing",
        program: || role(3, grows_among_deaths, |_, newcomer| joins_among_deaths(newcomer)),
        test: |run| {
            let number = |name| env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
            let mut random = number("GROW_SEED").unwrap_or(1);
            for _ in 0..number("GROW_DEATHS").unwrap_or(4) {
                let victim = 1 + below(&mut random, 2) as usize;
                let after = Duration::from_micros(below(&mut random, 30_000));
                let mut ranks = start(run, 4, |_, _| {});
                ranks.hears(0, "it grows");
                thread::sleep(after);
                ranks.kill(victim);
                let ended = ranks.ended();
                let context = format!("{victim} after {after:?}: {ended:?}");
                // The members continue together, with the newcomer or without it.
                let sizes = (0..3).filter(|rank| *rank != victim).map(|rank| {
                    assert!(ended[rank].status.success(), "{context}");
                    let size = ended[rank].said.rsplit("one of ").next().unwrap_or_default();
                    size.chars().next()
                });
                let sizes: BTreeSet<Option<char>> = sizes.collect();
                assert_eq!(sizes.len(), 1, "{context}");
                assert!(ended[3].status.success(), "{context}");
            }
        },
    },
    Test {
        name: "who_does_not_know_the_secret_learns_nothing",
        program: || role(1, grows, guesses),
        test: |run| start(run, 2, |_, _| {}).succeed(),
    },
    Test {
        name: "two_newcomers_with_one_number_are_named",
        program: || role(1, one_number, |_, newcomer| one_seat(newcomer)),
        test: |run| start(run, 3, |_, _| {}).succeed(),
    },
    Test {
        name: "a_newcomer_on_another_release_is_named",
        program: || role(1, another_release, |_, newcomer| newcomer_on_another_release(newcomer)),
        test: |run| {
            let nccl = release(Version::new(2, 27, 7));
            let other = |rank, command: &mut process::Command| {
                if rank == 1 {
                    command.env(ENVIRONMENT, nccl.path());
                }
            };
            start(run, 2, other).succeed();
        },
    },
];

const INVITATION: &str = "TYPED_NCCL_TEST_INVITATION";

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_secs(3);

/// Starts processes, of which the first are members; all know where the invitation will be.
fn start(run: &Run, count: usize, with: impl Fn(usize, &mut process::Command)) -> Ranks {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let name = format!("typed-nccl-invitation.{}.{}", process::id(), STARTED.fetch_add(1, Relaxed));
    let path = env::temp_dir().join(name);
    Ranks::start(count, |rank| {
        let mut command = run.on_gpus();
        command.env(INVITATION, &path);
        with(rank, &mut command);
        command
    })
}

fn text(name: &str) -> String {
    env::var(name).expect("it is started as torchrun does")
}

fn number(name: &str) -> usize {
    text(name).parse().expect("a number")
}

/// Rank 0 sends the invitation to this test's newcomers: it appears as a whole.
fn send(comm: &Comm, invitation: &Invitation) {
    if comm.rank().index() != 0 {
        return;
    }
    let path = PathBuf::from(text(INVITATION));
    let whole = path.with_extension("whole");
    fs::write(&whole, invitation.to_bytes()).expect("there is room for it");
    fs::rename(whole, path).expect("it can be renamed");
}

fn receive() -> Result<Invitation> {
    let started = Instant::now();
    loop {
        if let Ok(bytes) = fs::read(text(INVITATION)) {
            return Invitation::from_bytes(&bytes);
        }
        assert!(started.elapsed() < LIMIT, "nobody invites");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Runs this process as one of the members, or as a newcomer.
fn role(
    members: usize,
    member: fn(Comm) -> Result<()>,
    newcomer: fn(&Invitation, usize) -> Result<()>,
) -> Result<()> {
    let own = number("RANK");
    if own >= members {
        return newcomer(&receive()?, own - members);
    }
    let address = format!("{}:{}", text("MASTER_ADDR"), text("MASTER_PORT"));
    let outcome = member(connect(Seat::tcp(address, own, members)?, own, LONG)?);
    if own == 0 {
        let _ = fs::remove_file(text(INVITATION));
    }
    outcome
}

fn connect(seat: Seat, ordinal: usize, deadline: Duration) -> Result<Comm> {
    start_comm(seat, ordinal, deadline)?.ready().wait()
}

fn start_comm(
    seat: Seat,
    ordinal: usize,
    deadline: Duration,
) -> Result<Communicator<Cuda<AnyDevice>, Initializing>> {
    let device = Cuda::any(u32::try_from(ordinal).expect("a few"))?;
    let config = CommConfig::builder().deadline(deadline).build();
    Communicator::builder().seat(seat).device(device).config(config).build().start()
}

fn works(comm: &mut Comm) -> Result<()> {
    moves(comm)?;
    splits(comm)
}

fn grows(mut comm: Comm) -> Result<()> {
    works(&mut comm)?;
    let (own, size) = (comm.rank(), comm.size());
    let handle = comm.abort_handle();
    let stale = comm.window::<u8>(1)?;
    let invitation = comm.invite(number("WORLD_SIZE") - size)?;
    send(&comm, &invitation);
    let mut comm = comm.grow(invitation)?;
    assert_eq!((comm.rank(), comm.size()), (own, number("WORLD_SIZE")));
    works(&mut comm)?;
    let error = comm.put_signal(&stale, 0, stale.at(0)).expect_err("it is of before");
    assert!(matches!(error, Error::Stale(_)), "{error}");
    comm.close(stale)?;
    drop(handle);
    comm.finish()
}

fn joins(invitation: &Invitation, newcomer: usize) -> Result<()> {
    let seat = Seat::invited(invitation, newcomer)?;
    let mut comm = connect(seat, number("RANK"), LONG)?;
    assert_eq!(comm.rank().index(), number("RANK"));
    works(&mut comm)?;
    comm.finish()
}

/// Threads 0 and 1 of this process, which a third thread and another process join.
fn threads() -> Result<()> {
    if number("RANK") == 1 {
        let mut comm = connect(Seat::invited(&receive()?, 1)?, 3, LONG)?;
        works(&mut comm)?;
        return comm.finish();
    }
    let member = |seat: Seat| -> Result<()> {
        let own = seat.rank().index();
        let mut comm = connect(seat, own, LONG)?;
        works(&mut comm)?;
        let invitation = comm.invite(2)?;
        send(&comm, &invitation);
        let mut comm = comm.grow(invitation)?;
        assert_eq!((comm.rank().index(), comm.size()), (own, 4));
        works(&mut comm)?;
        comm.finish()
    };
    let newcomer = || -> Result<()> {
        let mut comm = connect(Seat::invited(&receive()?, 0)?, 2, LONG)?;
        works(&mut comm)?;
        comm.finish()
    };
    thread::scope(|scope| {
        let members = Seat::local(2).into_iter().map(|seat| scope.spawn(move || member(seat)));
        let threads: Vec<_> = members.chain([scope.spawn(newcomer)]).collect();
        let all = threads.into_iter().map(|thread| thread.join().expect("no thread panics"));
        all.collect::<Result<()>>()
    })?;
    let _ = fs::remove_file(text(INVITATION));
    Ok(())
}

fn nobody_comes(comm: Comm) -> Result<()> {
    comm.finish()?;
    // Again, with a short deadline.
    let address = format!("{}:{}", text("MASTER_ADDR"), text("MASTER_PORT"));
    let own = number("RANK");
    let ready = start_comm(Seat::tcp(address, own, 2)?, own, SHORT)?.ready();
    let mut comm = ready.wait_until(Instant::now() + LONG)?;
    comm.within(LONG).barrier()?;
    let invitation = comm.within(LONG).invite(1)?;
    let failed = comm.try_grow(invitation).expect_err("nobody comes");
    let text = failed.error.to_string();
    assert!(matches!(failed.error, Error::Timeout(_)) && text.contains("grow"), "{text}");
    assert!(text.contains("1 of 3 ranks have not come: 2"), "{text}");
    let mut comm = failed.value;
    works(&mut comm.within(LONG))?;
    comm.finish()
}

fn loses_the_newcomer(comm: Comm) -> Result<()> {
    let invitation = comm.invite(2)?;
    send(&comm, &invitation);
    let failed = comm.try_grow(invitation).expect_err("the newcomer is killed");
    let Error::PeerFailed(lost) = &failed.error else { panic!("{}", failed.error) };
    assert_eq!(lost.lost, [Rank::from_index(2)], "{lost}");
    assert!(lost.why.contains("its process is gone"), "{lost}");
    let mut comm = failed.value;
    works(&mut comm)?;
    comm.finish()
}

fn waits_to_be_killed(invitation: &Invitation, newcomer: usize) -> Result<()> {
    let device = Cuda::any(u32::try_from(number("RANK")).expect("a few"))?;
    let mut starting = Seat::invited(invitation, newcomer)?.start(device)?;
    loop {
        let soon = Instant::now() + Duration::from_millis(100);
        let failed = starting.try_ready(soon).expect_err("another newcomer never comes");
        assert!(matches!(failed.error, Error::Timeout(_)), "{failed}");
        if failed.error.to_string().contains("1 of 4 ranks have not come: 3") {
            println!("it has come");
        }
        starting = failed.value;
    }
}

fn loses_a_member(comm: Comm) -> Result<()> {
    let own = comm.rank().index();
    let invitation = comm.invite(1)?;
    println!("it grows");
    let failed = comm.try_grow(invitation).expect_err("a member is killed");
    let Error::PeerFailed(lost) = &failed.error else { panic!("{}", failed.error) };
    assert_eq!(lost.lost, [Rank::from_index(1)], "{lost}");
    let mut comm = failed.value;
    comm.recover()?;
    assert_eq!((comm.rank().index(), comm.size()), (own / 2, 2));
    works(&mut comm)?;
    comm.finish()
}

fn grows_among_deaths(comm: Comm) -> Result<()> {
    let invitation = comm.invite(1)?;
    send(&comm, &invitation);
    println!("it grows");
    let grown = comm.try_grow(invitation);
    let mut comm = grown.unwrap_or_else(|failed| {
        println!("{}", failed.error);
        failed.value
    });
    goes_on(&mut comm)?;
    println!("one of {}", comm.size());
    comm.finish()
}

fn joins_among_deaths(newcomer: usize) -> Result<()> {
    match Seat::invited(&receive()?, newcomer).and_then(|seat| connect(seat, 3, LONG)) {
        Ok(mut comm) => {
            goes_on(&mut comm)?;
            comm.finish()
        }
        // The members continued without it, or have ended already.
        Err(Error::PeerFailed(_) | Error::InitFailed(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// No stream waits for a signal of the dying rank, as nothing would free it.
fn adds_up(comm: &Comm) -> Result<()> {
    let mut x = comm.device().from_slice(&[1_u64])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    assert_eq!(x.to_vec()?, [comm.size() as u64]);
    Ok(())
}

/// Works until it has worked after the death.
fn goes_on(comm: &mut Comm) -> Result<()> {
    let mut has_died = false;
    loop {
        match adds_up(comm) {
            Ok(()) if has_died => return Ok(()),
            Ok(()) => {}
            Err(error) if error.is_peer_failure() => {
                println!("{error}");
                println!("{}", comm.recover()?);
                has_died = true;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Joins with one bit of the secret flipped, then with the secret.
fn guesses(invitation: &Invitation, newcomer: usize) -> Result<()> {
    let mut bytes = invitation.to_bytes();
    // After a layout and the length of the place comes the place: a layout and an id, then the
    // secret.
    bytes[1 + 2 + 17] ^= 1;
    let guessed = Invitation::from_bytes(&bytes)?;
    let seat = Seat::invited(&guessed, newcomer)?;
    // Any listener there could refuse, so it keeps trying.
    let (mut starting, started) = (start_comm(seat, 1, LONG)?, Instant::now());
    loop {
        let soon = Instant::now() + Duration::from_millis(100);
        let failed = starting.try_ready(soon).expect_err("it does not know the secret");
        assert!(matches!(failed.error, Error::Timeout(_)), "{failed}");
        if failed.error.to_string().contains("does not know the secret") {
            break;
        }
        assert!(started.elapsed() < LIMIT, "{failed}");
        starting = failed.value;
    }
    joins(invitation, newcomer)
}

fn one_number(comm: Comm) -> Result<()> {
    let invitation = comm.invite(2)?;
    send(&comm, &invitation);
    let failed = comm.try_grow(invitation).expect_err("both newcomers have one number");
    assert!(matches!(failed.error, Error::InitFailed(_)), "{}", failed.error);
    assert!(failed.error.to_string().contains("was taken twice"), "{}", failed.error);
    let mut comm = failed.value;
    works(&mut comm)?;
    comm.finish()
}

fn one_seat(newcomer: usize) -> Result<()> {
    let outcome = connect(Seat::invited(&receive()?, 0)?, 1 + newcomer, LONG);
    let error = outcome.expect_err("another one has its number");
    assert!(error.to_string().contains("was taken twice"), "{error}");
    Ok(())
}

fn another_release(comm: Comm) -> Result<()> {
    let invitation = comm.invite(1)?;
    send(&comm, &invitation);
    let failed = comm.try_grow(invitation).expect_err("it runs another release");
    assert!(matches!(failed.error, Error::InitFailed(_)), "{}", failed.error);
    assert!(failed.error.to_string().contains("NCCL 2.27.7"), "{}", failed.error);
    let mut comm = failed.value;
    works(&mut comm)?;
    comm.finish()
}

fn newcomer_on_another_release(newcomer: usize) -> Result<()> {
    let outcome = connect(Seat::invited(&receive()?, newcomer)?, 1, LONG);
    let error = outcome.expect_err("it runs another release");
    assert!(error.to_string().contains("run one release on all ranks"), "{error}");
    Ok(())
}
