//! Newcomers join a communicator: invite, grow, and newcomers that do not come, on threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use typed_nccl::{
    AnyDevice, CommConfig, Communicator, Device, Error, Host, Invitation, Rank, Result, Seat, Sum,
    UniqueId, World, tag,
};

tag!(Named);

type Comm = Communicator<Host<AnyDevice>>;

/// Threads that are ranks; a hang is reported.
struct Threads {
    count: usize,
    told: std::sync::mpsc::Sender<Result<(), String>>,
    hears: Receiver<Result<(), String>>,
}

impl Threads {
    fn new() -> Self {
        let (told, hears) = channel();
        Self { count: 0, told, hears }
    }

    fn start(&mut self, name: String, body: impl FnOnce() -> Result<()> + Send + 'static) {
        let told = self.told.clone();
        self.count += 1;
        std::thread::spawn(move || {
            let outcome = catch_unwind(AssertUnwindSafe(body)).map_err(|_| "it panicked".into());
            let outcome = outcome.and_then(|done| done.map_err(|error| error.to_string()));
            let _ = told.send(outcome.map_err(|why| format!("{name}: {why}")));
        });
    }

    fn end(self) {
        for _ in 0..self.count {
            let outcome = self.hears.recv_timeout(Duration::from_secs(30));
            outcome.expect("no rank hangs").unwrap_or_else(|why| panic!("{why}"));
        }
    }
}

fn config(deadline: Duration) -> CommConfig {
    CommConfig::builder().deadline(deadline).build()
}

/// Connects on the device with its rank's number.
fn connect(seat: Seat, deadline: Duration) -> Result<Comm> {
    let ordinal = seat.rank().index();
    connect_on(seat, ordinal, deadline)
}

/// Connects on a device that no member has.
fn come(invitation: &Invitation, k: usize) -> Result<Comm> {
    connect_on(Seat::invited(invitation, k)?, 100 + k, LONG)
}

fn connect_on(seat: Seat, ordinal: usize, deadline: Duration) -> Result<Comm> {
    let device = Host::any(ordinal as u32)?;
    let comm = Communicator::builder().seat(seat).device(device).config(config(deadline));
    comm.build().connect()
}

const LONG: Duration = Duration::from_secs(20);
/// It also counts for what the members do before and after.
const SHORT: Duration = Duration::from_secs(3);

/// Members run a body; newcomers, which get the invitation that rank 0 sends, another one.
fn grows(
    members: usize,
    newcomers: usize,
    deadline: Duration,
    member: impl Fn(Comm, &dyn Fn(&Invitation)) -> Result<()> + Clone + Send + 'static,
    newcomer: impl Fn(&Invitation, usize) -> Result<()> + Clone + Send + 'static,
) {
    let mut threads = Threads::new();
    let mut tells = Vec::new();
    for k in 0..newcomers {
        let (tell, hears) = channel::<Vec<u8>>();
        let newcomer = newcomer.clone();
        tells.push(tell);
        threads.start(format!("newcomer {k}"), move || {
            while let Ok(bytes) = hears.recv() {
                newcomer(&Invitation::from_bytes(&bytes)?, k)?;
            }
            Ok(())
        });
    }
    for seat in Seat::local(members) {
        let (member, tells) = (member.clone(), tells.clone());
        threads.start(format!("rank {}", seat.rank()), move || {
            let comm = connect(seat, deadline)?;
            comm.barrier()?;
            let rank = comm.rank().index();
            let send = |invitation: &Invitation| {
                let bytes = invitation.to_bytes().to_vec();
                tells.iter().filter(|_| rank == 0).for_each(|tell| {
                    tell.send(bytes.clone()).expect("the newcomer is there");
                });
            };
            member(comm, &send)
        });
    }
    drop(tells);
    threads.end();
}

/// Checks that the ranks of `comm` add up.
fn adds_up<W: World>(comm: &Communicator<W>) -> Result<()> {
    let mut x = comm.device().from_slice(&[comm.rank().index() as u64, 1])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    let n = comm.size() as u64;
    assert_eq!(x.to_vec()?, [n * (n - 1) / 2, n]);
    Ok(())
}

fn until_it_fails(comm: &Comm) -> Error {
    loop {
        if let Err(error) = adds_up(comm) {
            return error;
        }
    }
}

/// A newcomer that stays until the others are done.
fn joins(invitation: &Invitation, k: usize) -> Result<()> {
    let comm = come(invitation, k)?;
    let rank = invitation.size() - invitation.newcomers() + k;
    assert_eq!((comm.rank().index(), comm.size()), (rank, invitation.size()));
    adds_up(&comm)?;
    comm.finish()
}

/// A newcomer that learns that the growth failed.
fn in_vain(invitation: &Invitation, k: usize) -> Result<()> {
    let error = come(invitation, k).expect_err("the members gave up");
    assert!(matches!(error, Error::PeerFailed(_) | Error::BadInvitation(_)), "{error}");
    Ok(())
}

#[test]
fn ids_and_invitations_pass_through_json() -> Result<()> {
    let id = UniqueId::new()?;
    let text = serde_json::to_string(&id).expect("it is encoded");
    assert_eq!(serde_json::from_str::<UniqueId>(&text).ok(), Some(id));
    let comm = Seat::local(1).remove(0).init(Host::any(0)?)?;
    let invitation = comm.invite(1)?;
    let text = serde_json::to_string(&invitation).expect("it is encoded");
    assert_eq!(serde_json::from_str::<Invitation>(&text).ok(), Some(invitation));
    comm.finish()
}

#[test]
fn newcomers_join_and_members_keep_their_numbers() {
    for (members, newcomers) in [(1, 1), (2, 2), (3, 1)] {
        let member = move |comm: Comm, send: &dyn Fn(&Invitation)| {
            let own = comm.rank();
            let invitation = comm.invite(newcomers)?;
            assert_eq!(
                (invitation.newcomers(), invitation.size()),
                (newcomers, members + newcomers)
            );
            send(&invitation);
            let comm = comm.grow(invitation)?;
            assert_eq!((comm.rank(), comm.size()), (own, members + newcomers));
            adds_up(&comm)?;
            comm.finish()
        };
        grows(members, newcomers, LONG, member, joins);
    }
}

#[test]
fn what_was_made_stays_or_is_stale() {
    let member = |mut comm: Comm, send: &dyn Fn(&Invitation)| {
        let stream = comm.device().stream()?;
        let own = comm.rank().index() as u32;
        let mut window = comm.window::<u32>(2)?;
        window.copy_from(&[7, own])?;
        let sum = comm.pre_mul_sum(3_u64)?;
        let buffer = comm.device().nccl_zeros::<u64>(8)?;
        let registration = comm.register_buffer(&buffer)?;
        let splits = comm.splits(&[1; 2])?;
        let handle = comm.abort_handle();
        let mut x = comm.device().from_slice(&[1_u64])?;
        comm.on(&stream).all_reduce_in_place(&mut x, Sum)?;
        let invitation = comm.invite(1)?;
        send(&invitation);
        let mut comm = comm.grow(invitation)?;
        assert_eq!(x.to_vec()?, [2]);
        adds_up(&comm)?;
        let mut x = comm.device().from_slice(&[1_u64])?;
        comm.on(&stream).all_reduce_in_place(&mut x, &sum)?;
        comm.sync(&stream)?;
        assert_eq!(x.to_vec()?, [6 + 1]);
        assert!(registration.is_valid());
        comm.deregister_buffer(registration)?;
        let (from, mut to) = (comm.device().zeros::<u8>(2)?, comm.device().zeros::<u8>(2)?);
        let stale = comm.all_to_all_v(&from, &mut to, &splits).expect_err("it knows two ranks");
        assert!(matches!(stale, Error::Stale(_)), "{stale}");
        assert!(
            stale.to_string().contains("had 2 ranks, before it grew to 3 (at tests/grow.rs"),
            "{stale}"
        );
        let stale = comm.put_signal(&window, 0, window.at(0)).expect_err("it is of before");
        assert!(matches!(stale, Error::Stale(_)), "{stale}");
        assert!(stale.to_string().contains("newcomers have no part in it"), "{stale}");
        // The memory belongs to the members, who register it again with all ranks.
        let memory = comm.close(window)?;
        assert_eq!(memory.to_vec()?, [7, own]);
        let window = comm.register_window(memory)?;
        comm.close(window)?;
        comm.barrier()?;
        match comm.rank().index() {
            1 => assert!(handle.abort("enough")),
            _ => assert!(until_it_fails(&comm).is_peer_failure()),
        }
        let _ = comm.barrier();
        comm.abort();
        Ok(())
    };
    let newcomer = |invitation: &Invitation, k| {
        let mut comm = come(invitation, k)?;
        adds_up(&comm)?;
        let mut x = comm.device().from_slice(&[1_u64])?;
        let sum = comm.pre_mul_sum(1_u64)?;
        comm.all_reduce_in_place(&mut x, &sum)?;
        assert_eq!(x.to_vec()?, [7]);
        let window = comm.window::<u32>(2)?;
        comm.close(window)?;
        comm.barrier()?;
        until_it_fails(&comm);
        comm.abort();
        Ok(())
    };
    grows(2, 1, LONG, member, newcomer);
}

#[test]
fn a_larger_communicator_recovers_shrinks_and_grows_again() {
    let member = |comm: Comm, send: &dyn Fn(&Invitation)| {
        let mut comm = comm;
        let invitation = comm.invite(1)?;
        send(&invitation);
        comm = comm.grow(invitation)?;
        comm.barrier()?;
        assert!(until_it_fails(&comm).is_peer_failure());
        let recovery = comm.recover()?;
        assert_eq!(recovery.lost.len(), 1);
        assert_eq!(recovery.lost[0].rank.index(), 2);
        adds_up(&comm)?;
        let invitation = comm.invite(1)?;
        send(&invitation);
        comm = comm.grow(invitation)?;
        comm.barrier()?;
        assert!(until_it_fails(&comm).is_peer_failure());
        comm = comm.revoke().shrink(&[2])?;
        adds_up(&comm)?;
        comm.finish()
    };
    let newcomer = |invitation: &Invitation, k| {
        let comm = come(invitation, k)?;
        comm.barrier()?;
        comm.abort_because("it has seen enough");
        Ok(())
    };
    grows(2, 1, LONG, member, newcomer);
}

/// A rank that one of them names is a rank to the other.
#[test]
fn a_newcomer_numbers_the_ranks_as_the_members_do() {
    let (tell, told) = channel::<Rank>();
    let told = std::sync::Arc::new(std::sync::Mutex::new(told));
    let member = move |comm: Comm, send: &dyn Fn(&Invitation)| {
        if comm.rank().index() == 1 {
            comm.abort();
            return Ok(());
        }
        drop(until_it_fails(&comm));
        let mut comm = comm;
        comm.recover()?;
        let invitation = comm.invite(1)?;
        send(&invitation);
        let comm = comm.grow(invitation)?;
        let newcomer = told.lock().expect("no panic").recv().expect("the newcomer tells");
        assert_eq!(newcomer, comm.ring(1));
        let mut x = comm.device().zeros::<u64>(1)?;
        comm.recv(&mut x, newcomer)?;
        assert_eq!(x.to_vec()?, [7]);
        comm.finish()
    };
    let newcomer = move |invitation: &Invitation, k: usize| {
        let comm = come(invitation, k)?;
        tell.send(comm.rank()).expect("the member listens");
        let x = comm.device().from_slice(&[7_u64])?;
        comm.send(&x, 0)?;
        comm.finish()
    };
    grows(2, 1, LONG, member, newcomer);
}

#[test]
fn newcomers_that_do_not_come_are_named_and_the_communicator_comes_back() {
    // Newcomer 0 comes, newcomer 1 does not.
    let member = |mut comm: Comm, send: &dyn Fn(&Invitation)| {
        let window = comm.window::<u32>(1)?;
        let sum = comm.pre_mul_sum(2_u64)?;
        let handle = comm.abort_handle();
        let invitation = comm.invite(2)?;
        send(&invitation);
        let failed = comm.try_grow(invitation.clone()).expect_err("newcomer 1 does not come");
        assert!(matches!(failed.error, Error::Timeout(_)), "{}", failed.error);
        let text = failed.error.to_string();
        assert!(text.contains("timeout: grow") && text.contains("rank 3 is missing"), "{text}");
        let comm = failed.value;
        comm.health()?;
        adds_up(&comm)?;
        let mut x = comm.device().from_slice(&[1_u64])?;
        comm.all_reduce_in_place(&mut x, &sum)?;
        assert_eq!(x.to_vec()?, [4]);
        let failed = comm.try_grow(invitation).expect_err("it was used");
        assert!(matches!(failed.error, Error::BadInvitation(_)), "{}", failed.error);
        assert!(failed.error.to_string().contains("it was used"), "{}", failed.error);
        let mut comm = failed.value;
        comm.close(window)?;
        // Another invitation works.
        let invitation = comm.invite(1)?;
        send(&invitation);
        let comm = comm.grow(invitation)?;
        adds_up(&comm)?;
        assert!(handle.abort("it is this one's"));
        assert!(comm.barrier().is_err());
        comm.abort();
        Ok(())
    };
    let newcomer = |invitation: &Invitation, k| match (invitation.newcomers(), k) {
        (2, 0) => in_vain(invitation, k),
        (1, 0) => {
            let comm = come(invitation, k)?;
            adds_up(&comm)?;
            comm.barrier().expect_err("the members abort");
            comm.abort();
            Ok(())
        }
        _ => Ok(()),
    };
    grows(2, 2, SHORT, member, newcomer);
}

#[test]
fn a_newcomer_that_leaves_is_named() {
    let member = |comm: Comm, send: &dyn Fn(&Invitation)| {
        let invitation = comm.invite(1)?;
        send(&invitation);
        let failed = comm.try_grow(invitation).expect_err("the newcomer drops its seat");
        let Error::PeerFailed(lost) = &failed.error else { panic!("{}", failed.error) };
        assert_eq!(lost.lost, [Rank::from_index(2)]);
        assert!(lost.why.contains("its seat was dropped and never taken"), "{}", failed.error);
        adds_up(&failed.value)?;
        failed.value.finish()
    };
    let newcomer = |invitation: &Invitation, k| Seat::invited(invitation, k).map(drop);
    grows(2, 1, LONG, member, newcomer);
}

#[test]
fn a_member_that_dies_meanwhile_is_named() {
    let member = |comm: Comm, send: &dyn Fn(&Invitation)| {
        let invitation = comm.invite(1)?;
        if comm.rank().index() == 1 {
            comm.abort_because("the disk is full");
            return Ok(());
        }
        send(&invitation);
        let failed = comm.try_grow(invitation).expect_err("rank 1 is gone");
        let Error::PeerFailed(lost) = &failed.error else { panic!("{}", failed.error) };
        assert_eq!(lost.lost, [Rank::from_index(1)]);
        let mut comm = failed.value;
        comm.recover()?;
        adds_up(&comm)?;
        // An earlier invitation is for the earlier communicator.
        let stale = comm.invite(1)?;
        send(&stale);
        let comm = comm.grow(stale)?;
        adds_up(&comm)?;
        comm.finish()
    };
    let newcomer = |invitation: &Invitation, k| match invitation.size() {
        4 => in_vain(invitation, k),
        _ => joins(invitation, k),
    };
    grows(3, 1, LONG, member, newcomer);
}

#[test]
fn an_abort_handle_ends_the_wait_for_newcomers() {
    let member = |comm: Comm, _: &dyn Fn(&Invitation)| {
        let invitation = comm.invite(1)?;
        let (own, handle) = (comm.rank().index(), comm.abort_handle());
        if own == 0 {
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(100));
                assert!(handle.abort("no more"));
            });
        }
        let failed = comm.try_grow(invitation).expect_err("nobody comes");
        let text = failed.error.to_string();
        assert!(text.contains("no more"), "{text}");
        assert_eq!(matches!(failed.error, Error::Abort(_)), own == 0, "{text}");
        until_it_fails(&failed.value);
        failed.value.abort();
        Ok(())
    };
    grows(2, 0, LONG, member, |_, _| Ok(()));
}

/// Rank 0 is told of rank 1's refusal although the grow in between failed.
#[test]
fn a_grow_that_fails_keeps_the_errors_of_earlier_operations() {
    let member = |comm: Comm, _: &dyn Fn(&Invitation)| {
        let (first, second) = (comm.invite(1)?, comm.invite(1)?);
        let (x, own) = (comm.device().zeros::<f32>(8)?, comm.rank().index());
        let mut y = comm.device().zeros::<f32>(if own == 1 { 7 } else { 8 })?;
        let called = comm.all_reduce(&x, &mut y, Sum);
        assert_eq!(called.is_err(), own == 1);
        let failed = comm.try_grow(if own == 0 { first } else { second });
        let failed = failed.expect_err("they differ");
        assert!(matches!(failed.error, Error::BadInvitation(_)), "{}", failed.error);
        let told = failed.value.sync(failed.value.stream());
        assert_eq!(matches!(told, Err(Error::Refused(_))), own == 0, "{own}: {told:?}");
        failed.value.finish()
    };
    grows(2, 0, LONG, member, |_, _| Ok(()));
}

#[test]
fn different_invitations_are_refused_on_all_ranks() {
    let member = |comm: Comm, _: &dyn Fn(&Invitation)| {
        let (first, second) = (comm.invite(1)?, comm.invite(1)?);
        assert_ne!(first, second);
        let own = comm.rank().index();
        let failed = comm.try_grow(if own == 0 { first } else { second.clone() });
        let failed = failed.expect_err("they differ");
        let text = failed.error.to_string();
        let other = format!("rank {} comes by another one", 1 - own);
        assert!(matches!(failed.error, Error::BadInvitation(_)) && text.contains(&other), "{text}");
        let comm = failed.value;
        // An invitation of another communicator, on one rank.
        let alone = Seat::local(1).remove(0).init(Host::any(0)?)?;
        let (theirs, asked) = (alone.invite(1)?, own == 1);
        let failed = comm.try_grow(if asked { theirs.clone() } else { second });
        let failed = failed.expect_err("it is another communicator's");
        let text = failed.error.to_string();
        assert!(matches!(failed.error, Error::BadInvitation(_)), "{text}");
        let why = "this communicator did not make it";
        assert!(text.contains(why) && text.contains("rank 1 cannot take") != asked, "{text}");
        // Different numbers.
        let comm = failed.value;
        let error = comm.invite(1 + own).expect_err("they differ");
        assert!(matches!(error, Error::BadInvitation(_)), "{error}");
        let asked = format!("rank {} invites {} newcomers", 1 - own, 2 - own);
        assert!(error.to_string().contains(&asked), "{error}");
        let error = comm.invite(0).expect_err("nobody is invited");
        assert!(matches!(error, Error::BadInvitation(_) | Error::ValueMismatch(_)), "{error}");
        adds_up(&comm)?;
        alone.finish()?;
        comm.finish()
    };
    grows(2, 0, LONG, member, |_, _| Ok(()));
}

#[test]
fn a_newcomer_has_one_seat_and_there_are_no_others() -> Result<()> {
    let comm = connect(Seat::local(1).remove(0), LONG)?;
    let invitation = comm.invite(2)?;
    let taken = Seat::invited(&invitation, 0)?;
    let says = |k: usize, what: &str| {
        let error = Seat::invited(&invitation, k).expect_err("there is none");
        assert!(matches!(error, Error::BadInvitation(_)), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    };
    says(0, "this newcomer's seat was taken");
    says(2, "it is for 2 newcomers, who count from 0: there is no 2");
    drop(taken);
    comm.finish()?;
    says(1, "no communicator of this process waits for it");
    assert_eq!(format!("{invitation:?}"), "Invitation of 2 to a communicator of 1");
    Ok(())
}

#[test]
fn newcomers_that_do_not_fit_are_named_and_the_communicator_comes_back() {
    type Join = fn(Seat) -> Result<()>;
    let cases: [(Join, &str); 3] = [
        (|seat| connect_on(seat, 0, LONG).map(drop), "are both on host:0"),
        (
            |seat| {
                let comm = Communicator::builder().seat(seat).device(Host::any(2)?);
                comm.label::<Named>().build().connect().map(drop)
            },
            "name the communicator differently, World and Named",
        ),
        (
            |seat| {
                let comm = Communicator::builder().seat(seat).device(Host::any(2)?);
                let config = CommConfig::builder().signals(4).build();
                comm.config(config).build().connect().map(drop)
            },
            "contexts and signals",
        ),
    ];
    for (join, what) in cases {
        let member = move |comm: Comm, send: &dyn Fn(&Invitation)| {
            let invitation = comm.invite(1)?;
            send(&invitation);
            let failed = comm.try_grow(invitation).expect_err("the newcomer does not fit");
            let text = failed.error.to_string();
            assert!(matches!(failed.error, Error::InitFailed(_)), "{text}");
            assert!(text.contains(what) && text.contains("ranks 0 and 2"), "{text}");
            adds_up(&failed.value)?;
            failed.value.finish()
        };
        let newcomer = move |invitation: &Invitation, k| {
            let error = join(Seat::invited(invitation, k)?).expect_err("it does not fit");
            assert!(error.to_string().contains(what), "{error}");
            Ok(())
        };
        grows(2, 1, LONG, member, newcomer);
    }
}
