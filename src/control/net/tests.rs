//! Many nodes in one process, over loopback.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::hub::{Command, Hub, NodeKey};
use super::ident::{self, CommId};
use super::node::Meet;
use super::proof::{self, CLAIM, Claim, Purpose, Secret, VERDICT, Version};
use super::unique::Place;
use super::{Comer, next_node};
use crate::backend::Listener;
use crate::communicator::Health;
use crate::control::{Control, FINISH, Meeting, Parts, Patience, Topic};
use crate::error::{Error, Site};
use crate::{Rank, Result};

const LIMIT: Duration = Duration::from_secs(20);

/// A process of its own, as far as the others see.
fn process() -> Arc<Hub> {
    Hub::start(Duration::from_secs(5)).expect("a listener and a thread")
}

fn random() -> u64 {
    u64::from_le_bytes(ident::random().expect("random bytes"))
}

fn place(hub: &Arc<Hub>) -> Place {
    let (id, secret) = (CommId(ident::random().expect("random bytes")), Secret::of_text("test"));
    let door = None;
    hub.send(Command::Meet { id, secret: secret.clone(), door, owner: None });
    Place { id, secret, addresses: hub.addresses.clone() }
}

/// One rank.
struct Node {
    control: Control,
    meeting: Arc<Meeting>,
    key: NodeKey,
    hub: Arc<Hub>,
    health: Health,
}

impl Node {
    fn come(hub: &Arc<Hub>, place: &Place, rank: usize, size: usize) -> Self {
        Self::try_come(hub, place, rank, size, random()).expect("it can look for the others")
    }

    fn try_come(
        hub: &Arc<Hub>,
        place: &Place,
        rank: usize,
        size: usize,
        process: u64,
    ) -> Result<Self> {
        let (id, addresses) = (place.id, place.addresses.clone());
        let meet = Meet { id, addresses, name: "here".to_owned(), may_be_stale: false };
        let (hub, key) = (hub.clone(), next_node());
        let comer = Comer::of(hub.clone(), rank, size, process)?;
        let meeting = comer.come(key, meet, place.secret.clone())?;
        Ok(Self::of(meeting, key, hub, rank))
    }

    fn of(meeting: Arc<Meeting>, key: NodeKey, hub: Arc<Hub>, rank: usize) -> Self {
        let control = Control::new(meeting.clone(), Rank::at(rank).0);
        let health = Health::new("World", Rank::at(rank));
        Self { control, meeting, key, hub, health }
    }

    fn exchange(&self, topic: Topic, bytes: &[u8], limit: Duration) -> Result<Parts> {
        let site = Site::caller();
        let ticket = self.control.post(topic, site, bytes.to_vec());
        let health = &self.health;
        let patience = Patience { health, limit, operation: topic, site, watch: &|_| None };
        self.control.collect(ticket, &patience)
    }

    fn kill(&self) {
        self.hub.send(Command::Kill(self.key));
    }
}

/// `size` ranks in processes of their own.
fn ranks(size: usize) -> Vec<Node> {
    let hub = process();
    let place = place(&hub);
    (0..size).map(|rank| Node::come(&hub, &place, rank, size)).collect()
}

/// What each rank makes of it, on a thread of its own.
fn each<T: Send>(nodes: &[Node], body: impl Fn(usize, &Node) -> T + Sync) -> Vec<T> {
    // A node is one thread's at a time.
    struct Only<'a>(&'a Node);
    // SAFETY: each is used by one thread, which the scope waits for.
    unsafe impl Send for Only<'_> {}
    thread::scope(|scope| {
        let body = &body;
        let run = |(rank, node)| {
            let only = Only(node);
            scope.spawn(move || {
                let only = only;
                body(rank, only.0)
            })
        };
        let threads: Vec<_> = nodes.iter().enumerate().map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

fn all_well(results: Vec<Result<Parts>>) -> Vec<Parts> {
    results.into_iter().map(|result| result.expect("all ranks take part")).collect()
}

#[test]
fn every_rank_gets_every_part() {
    for size in [1, 2, 3, 18, 40] {
        let nodes = ranks(size);
        for round in 0..4_u8 {
            let results = each(&nodes, |rank, node| {
                let bytes = [round, u8::try_from(rank).expect("few")];
                node.exchange("gather", if round == 2 { &[] } else { &bytes }, LIMIT)
            });
            for parts in all_well(results) {
                assert_eq!(parts.len(), size);
                for (rank, part) in parts.iter().enumerate() {
                    let expected = [round, u8::try_from(rank).expect("few")];
                    assert_eq!(**part, *(if round == 2 { &[][..] } else { &expected[..] }));
                }
            }
        }
        all_well(each(&nodes, |_, node| node.exchange(FINISH, b"", LIMIT)));
    }
}

#[test]
fn long_values_arrive() {
    let nodes = ranks(3);
    let bytes = |rank: usize| vec![u8::try_from(rank).expect("few"); 3_000_000 + rank];
    let results = each(&nodes, |rank, node| node.exchange("gather", &bytes(rank), LIMIT));
    for parts in all_well(results) {
        for (rank, part) in parts.iter().enumerate() {
            assert!(**part == *bytes(rank));
        }
    }
}

#[test]
fn a_rank_that_calls_something_else_is_told_and_tells() {
    let nodes = ranks(3);
    let results = each(&nodes, |rank, node| {
        node.exchange(if rank == 1 { "barrier" } else { "gather" }, b"", LIMIT)
    });
    for (rank, result) in results.into_iter().enumerate() {
        let error = result.expect_err("the calls differ").to_string();
        let named = if rank == 1 { "called gather at" } else { "rank 1 called barrier at" };
        assert!(error.contains(named) && error.contains("net/tests.rs"), "{error}");
    }
}

#[test]
fn who_does_not_come_is_named() {
    let hub = process();
    let place = place(&hub);
    let nodes: Vec<_> =
        (0..4).filter(|rank| *rank != 2).map(|rank| Node::come(&hub, &place, rank, 4)).collect();
    for result in each(&nodes, |_, node| node.exchange("init", b"", Duration::from_secs(1))) {
        let error = result.expect_err("one is missing").to_string();
        assert!(error.contains("1 of 4 ranks have not come: 2"), "{error}");
    }
}

#[test]
fn splits_are_trees_of_their_own() {
    let nodes = ranks(7);
    let site = Site::caller();
    let children = each(&nodes, |rank, node| {
        let ticket = node.control.post("split", site, vec![]);
        let health = &node.health;
        let patience =
            Patience { health, limit: LIMIT, operation: "split", site, watch: &|_| None };
        node.control.collect(ticket, &patience).expect("all split");
        let color = u32::try_from(rank % 2).expect("few");
        // In the other order.
        let members: Vec<u32> = (0..7).rev().filter(|member| member % 2 == color).collect();
        let place = members.iter().position(|member| *member as usize == rank).expect("a member");
        let child = node.meeting.child(ticket.number(), color, place, &members);
        let child = Control::new(child, Rank::at(place).0);
        let ticket = child.post("init", site, vec![u8::try_from(rank).expect("few")]);
        let parts = child.collect(ticket, &patience).expect("all come");
        let ranks: Vec<u32> = parts.iter().map(|part| part[0].into()).collect();
        assert_eq!(ranks, members);
        child
    });
    let ids: Vec<u64> = children.iter().map(Control::id).collect();
    assert!(ids[0] == ids[2] && ids[1] == ids[3] && ids[0] != ids[1]);
    all_well(each(&nodes, |_, node| node.exchange(FINISH, b"", LIMIT)));
}

/// Kills a rank between exchanges; every survivor is told, by name, soon.
fn death(size: usize, victim: usize) {
    let mut nodes = ranks(size);
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
    let killed = nodes.remove(victim);
    killed.kill();
    let started = Instant::now();
    for result in each(&nodes, |_, node| node.exchange("barrier", b"", LIMIT)) {
        let error = result.expect_err("one is dead");
        let Error::PeerFailed(failed) = &error else { panic!("{error}") };
        assert_eq!(failed.lost, [Rank::at(victim)], "{error}");
        let pid = format!("process {}", std::process::id());
        assert!(failed.why.contains(&pid) && failed.why.contains("call was init at"), "{error}");
    }
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
}

#[test]
fn the_death_of_a_leaf_is_told() {
    death(20, 19);
}

#[test]
fn the_death_of_an_interior_rank_is_told() {
    death(40, 1);
}

#[test]
fn the_death_of_rank_0_is_told_and_ends_nothing_else() {
    death(2, 0);
    death(40, 0);
}

#[test]
fn a_rank_that_leaves_says_why_and_the_others_find_new_ways() {
    let mut nodes = ranks(40);
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
    let left = nodes.remove(1);
    left.control.depart("it was aborted: enough");
    drop(left);
    for result in each(&nodes, |_, node| node.exchange("barrier", b"", LIMIT)) {
        let error = result.expect_err("one has left");
        assert!(error.to_string().contains("rank 1 left: it was aborted: enough"), "{error}");
    }
}

#[test]
fn two_ranks_of_one_number_are_one_error_on_all() {
    let hub = process();
    let place = place(&hub);
    let nodes: Vec<_> = [0, 1, 1].map(|rank| Node::come(&hub, &place, rank, 3)).into();
    for result in each(&nodes, |_, node| node.exchange("init", b"", LIMIT)) {
        let error = result.expect_err("rank 1 is there twice").to_string();
        assert!(error.contains("rank 1 was taken twice: by host"), "{error}");
    }
}

#[test]
fn sizes_that_differ_are_one_error_on_all() {
    let hub = process();
    let place = place(&hub);
    let nodes: Vec<_> = [(0, 2), (1, 3)].map(|(rank, n)| Node::come(&hub, &place, rank, n)).into();
    for result in each(&nodes, |_, node| node.exchange("init", b"", LIMIT)) {
        let error = result.expect_err("they disagree").to_string();
        assert!(error.contains("ranks 0 and 1 disagree on the number of ranks"), "{error}");
    }
}

#[test]
fn who_does_not_know_the_secret_stays_outside_and_is_told() {
    let hub = process();
    let place = place(&hub);
    let wrong = Place {
        secret: Secret::of_text("guessed"),
        id: place.id,
        addresses: place.addresses.clone(),
    };
    let stranger = Node::come(&hub, &wrong, 1, 2);
    let error = stranger.exchange("init", b"", LIMIT).expect_err("it does not know the secret");
    assert!(error.to_string().contains("TYPED_NCCL_SECRET"), "{error}");
    let nodes: Vec<_> = (0..2).map(|rank| Node::come(&hub, &place, rank, 2)).collect();
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
}

/// Garbage, silence, frames of 4 GiB, and more connections than are kept: the ranks meet all the same.
#[test]
fn strangers_keep_nobody_from_meeting() {
    let hub = process();
    let place = place(&hub);
    let address = place.addresses[place.addresses.len() - 1];
    let mut strangers = Vec::new();
    for n in 0..1500_u32 {
        let Ok(mut stranger) = TcpStream::connect(address) else { continue };
        match n % 3 {
            0 => {}
            1 => drop(stranger.write_all(&[0xff; 4096])),
            _ => drop(stranger.write_all(&u32::MAX.to_le_bytes())),
        }
        strangers.push(stranger);
    }
    let nodes: Vec<_> = (0..5).map(|rank| Node::come(&hub, &place, rank, 5)).collect();
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
    drop(strangers);
}

/// What a stranger can learn: a challenge, and that it was refused.
#[test]
fn a_stranger_learns_nothing() {
    let hub = process();
    let place = place(&hub);
    let address = place.addresses[place.addresses.len() - 1];
    let mut stranger = TcpStream::connect(address).expect("somebody listens");
    stranger.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut challenge = [0; proof::CHALLENGE];
    stranger.read_exact(&mut challenge).expect("a challenge");
    let (version, id, purpose) = (Version::own(), place.id, Purpose::Meet);
    let claim = Claim { version, id, purpose, from: 0, to: 0 };
    let claim: [u8; CLAIM] = claim.prove(&Secret::of_text("guessed"), &challenge, [1; 32]);
    stranger.write_all(&claim).expect("it is read");
    let mut answer = Vec::new();
    stranger.read_to_end(&mut answer).expect("an answer, and the end");
    assert_eq!(answer.len(), VERDICT);
    assert!(answer[1..].iter().all(|byte| *byte == 0), "it is no proof that could be passed on");
}

#[test]
fn a_frame_of_4_gib_ends_its_connection_and_takes_no_memory() {
    let hub = process();
    let place = place(&hub);
    let address = place.addresses[place.addresses.len() - 1];
    let mut peer = TcpStream::connect(address).expect("somebody listens");
    peer.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut challenge = [0; proof::CHALLENGE];
    peer.read_exact(&mut challenge).expect("a challenge");
    let (version, id, purpose) = (Version::own(), place.id, Purpose::Meet);
    let claim = Claim { version, id, purpose, from: 0, to: 0 };
    peer.write_all(&claim.prove(&place.secret, &challenge, [1; 32])).expect("it is read");
    let mut verdict = [0; VERDICT];
    peer.read_exact(&mut verdict).expect("a verdict");
    peer.write_all(&u32::MAX.to_le_bytes()).expect("it is read");
    let mut rest = Vec::new();
    assert!(matches!(peer.read_to_end(&mut rest), Ok(0) | Err(_)), "the connection ends");
    let nodes: Vec<_> = (0..2).map(|rank| Node::come(&hub, &place, rank, 2)).collect();
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
}

#[test]
fn another_version_is_one_error_on_all() {
    let hub = process();
    let place = place(&hub);
    let address = place.addresses[place.addresses.len() - 1];
    let node = Node::come(&hub, &place, 0, 2);
    let mut peer = TcpStream::connect(address).expect("somebody listens");
    peer.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut challenge = [0; proof::CHALLENGE];
    peer.read_exact(&mut challenge).expect("a challenge");
    let version = Version::named("99.0.0");
    let claim = Claim { version, id: place.id, purpose: Purpose::Meet, from: 1, to: 0 };
    let claim = claim.prove(&place.secret, &challenge, [1; 32]);
    peer.write_all(&claim).expect("it is read");
    let mut verdict = [0; VERDICT];
    peer.read_exact(&mut verdict).expect("a verdict");
    let verdict = proof::judged(&place.secret, &challenge, &claim, &verdict);
    assert_eq!(verdict, Some(proof::Verdict::OtherVersion));
    let error = node.exchange("init", b"", LIMIT).expect_err("the builds differ").to_string();
    assert!(error.contains("rank 1 runs typed-nccl 99.0.0"), "{error}");
}

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Listener for Heard {
    fn message(&self, from: Rank, message: &[u8]) {
        let text = format!("{from}: {}", String::from_utf8_lossy(message));
        self.0.lock().expect("no panic").push(text);
    }

    fn died(&self, rank: Rank, _: &str) {
        self.0.lock().expect("no panic").push(format!("{rank} died"));
    }
}

impl Heard {
    fn until(&self, expected: &[&str]) {
        let started = Instant::now();
        loop {
            let heard = self.0.lock().expect("no panic").clone();
            if heard.len() >= expected.len() || started.elapsed() > LIMIT {
                assert_eq!(heard, expected);
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn messages_reach_all_or_one_and_deaths_come_last() {
    let nodes = ranks(20);
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
    let wires: Vec<_> = nodes.iter().map(|node| node.control.wire().expect("a wire")).collect();
    wires[19].tell(None, b"to all".to_vec());
    wires[19].tell(Some(Rank(3)), b"to 3".to_vec());
    wires[19].tell(Some(Rank(2)), b"to 2".to_vec());
    wires[19].tell(Some(Rank(19)), b"to nobody".to_vec());
    let heard: Vec<_> = nodes.iter().map(|_| Arc::new(Heard::default())).collect();
    for (wire, heard) in wires.iter().zip(&heard) {
        let listener: Arc<dyn Listener> = heard.clone();
        wire.listen(Arc::downgrade(&listener));
    }
    heard[3].until(&["19: to all", "19: to 3"]);
    heard[2].until(&["19: to all", "19: to 2"]);
    heard[18].until(&["19: to all"]);
    nodes[19].kill();
    for (rank, heard) in heard.iter().enumerate().take(19) {
        match rank {
            2 => heard.until(&["19: to all", "19: to 2", "19 died"]),
            3 => heard.until(&["19: to all", "19: to 3", "19 died"]),
            _ => heard.until(&["19: to all", "19 died"]),
        }
    }
    assert!(heard[19].0.lock().expect("no panic").is_empty());
}

#[test]
fn an_id_serves_one_communicator() {
    let hub = process();
    let place = place(&hub);
    let nodes: Vec<_> = (0..2).map(|rank| Node::come(&hub, &place, rank, 2)).collect();
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
    drop(nodes);
    let again = Node::come(&hub, &place, 0, 2);
    let error = again.exchange("init", b"", LIMIT).expect_err("it was used").to_string();
    assert!(error.contains("an id serves one communicator"), "{error}");
}

/// Rank 17 has no way to the others when it dies: the rank that it should have come to notices.
#[test]
fn a_rank_that_dies_while_it_looks_for_a_new_way_is_missed() {
    let hub = Hub::start(Duration::from_millis(200)).expect("a listener and a thread");
    let place = place(&hub);
    let mut nodes: Vec<_> = (0..20).map(|rank| Node::come(&hub, &place, rank, 20)).collect();
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
    let (last, left) = (nodes.remove(17), nodes.remove(1));
    let site = Site::caller();
    left.control.post("barrier", site, vec![]);
    thread::sleep(Duration::from_millis(50));
    // Both at once, in the order in which they are asked.
    left.control.depart("it was aborted: enough");
    hub.send(Command::Close(left.key));
    last.kill();
    for result in each(&nodes, |_, node| node.exchange("barrier", b"", LIMIT)) {
        let error = result.expect_err("two are gone").to_string();
        assert!(error.contains("it has not come back") && error.contains("17"), "{error}");
    }
}

/// A sequence of numbers that a seed gives.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % below.max(1)
    }
}

/// Ranks die at any moment, whoever they are: each survivor is told who, and none waits for ever.
#[test]
fn deaths_at_any_moment_are_told_to_all_who_live() {
    for seed in 0..12 {
        let dice = &mut Dice(seed);
        let size = 2 + dice.roll(50);
        let victims: Vec<usize> = (0..1 + dice.roll(3)).map(|_| dice.roll(size)).collect();
        let nodes = ranks(size);
        let rests: Vec<u64> = victims.iter().map(|_| dice.roll(30) as u64).collect();
        let started = Instant::now();
        // Some die while they still look for each other.
        if seed % 4 != 0 {
            all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
        }
        let keys: Vec<_> =
            victims.iter().map(|victim| (nodes[*victim].hub.clone(), nodes[*victim].key)).collect();
        let killer = thread::spawn({
            let rests = rests.clone();
            move || {
                for ((hub, key), rest) in keys.into_iter().zip(rests) {
                    thread::sleep(Duration::from_millis(rest));
                    hub.send(Command::Kill(key));
                }
            }
        });
        let results = each(&nodes, |rank, node| {
            loop {
                // One that is dead does not know.
                let limit = Duration::from_millis(if victims.contains(&rank) { 300 } else { 3000 });
                if let Err(error) = node.exchange("barrier", b"", limit) {
                    return error;
                }
            }
        });
        killer.join().expect("no panic");
        for (rank, error) in results.iter().enumerate().filter(|(rank, _)| !victims.contains(rank))
        {
            // One that died before it came is missing, as far as anybody knows.
            let is_missing = seed % 4 == 0 && error.to_string().contains("have not come");
            let Error::PeerFailed(failed) = error else {
                assert!(
                    is_missing,
                    "seed {seed}, rank {rank} of {size}, victims {victims:?}: {error}"
                );
                continue;
            };
            let is_victim = |lost: &Rank| victims.contains(&lost.index());
            assert!(failed.lost.iter().all(is_victim), "seed {seed}, victims {victims:?}: {error}");
        }
        assert!(started.elapsed() < LIMIT, "seed {seed}: {:?}", started.elapsed());
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("its address").port()
}

impl Node {
    fn by(
        hub: &Arc<Hub>,
        rank: usize,
        size: usize,
        come: impl FnOnce(&Comer) -> Result<Arc<Meeting>>,
    ) -> Self {
        let comer = Comer::of(hub.clone(), rank, size, random()).expect("a rank");
        let meeting = come(&comer).expect("it can look for the others");
        Self::of(meeting, 0, hub.clone(), rank)
    }
}

#[test]
fn ranks_meet_at_an_address_and_do_so_again() {
    let (hub, address) = (process(), format!("127.0.0.1:{}", free_port()));
    for _ in 0..3 {
        let secret = Secret::of_text("test");
        let come = |rank| {
            Node::by(&hub, rank, 4, |comer| {
                comer.tcp(std::slice::from_ref(&address), secret.clone(), false)
            })
        };
        // Rank 0 comes last.
        let nodes: Vec<_> = [3, 2, 1, 0].map(come).into_iter().rev().collect();
        all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
        all_well(each(&nodes, |_, node| node.exchange(FINISH, b"", LIMIT)));
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let other = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = format!("{}", other.local_addr().expect("its address"));
    let comer = Comer::of(process(), 0, 2, 1).expect("a rank");
    let error = comer
        .tcp(std::slice::from_ref(&address), Secret::of_text("test"), false)
        .map(drop)
        .expect_err("it is taken");
    assert!(error.to_string().contains(&format!("rank 0 cannot listen at {address}")), "{error}");
}

#[test]
fn what_is_not_ours_at_an_address_is_named() {
    let other = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = format!("{}", other.local_addr().expect("its address"));
    let hub = process();
    let node = Node::by(&hub, 1, 2, |comer| {
        comer.tcp(std::slice::from_ref(&address), Secret::of_text("test"), false)
    });
    let (mut peer, _) = other.accept().expect("it comes");
    peer.write_all(&[b'x'; 200]).expect("it reads");
    let error = node
        .exchange("init", b"", Duration::from_secs(1))
        .expect_err("nobody is there")
        .to_string();
    assert!(error.contains(&address) && error.contains("is not typed-nccl"), "{error}");
}

#[test]
fn ranks_meet_by_a_file_and_one_of_an_earlier_run_does_no_harm() {
    let folder = std::env::temp_dir().join(format!("typed-nccl-test-{:x}", random()));
    std::fs::create_dir(&folder).expect("a folder");
    let path = folder.join("meet");
    for _ in 0..2 {
        let hub = process();
        let come = |rank| Node::by(&hub, rank, 3, |comer| comer.file(&path));
        // The second time they find what the first has left, where nobody is any more.
        let mut nodes = vec![come(1), come(2)];
        thread::sleep(Duration::from_millis(100));
        nodes.insert(0, come(0));
        all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
        all_well(each(&nodes, |_, node| node.exchange(FINISH, b"", LIMIT)));
    }
    std::fs::write(folder.join("other"), "something else").expect("a file");
    let hub = process();
    let node = Node::by(&hub, 1, 2, |comer| comer.file(&folder.join("other")));
    let error = node.exchange("init", b"", Duration::from_secs(1)).expect_err("it is no such file");
    assert!(error.to_string().contains("it belongs to user"), "{error}");
    std::fs::remove_dir_all(folder).expect("it is gone");
}

mod bytes {
    use super::super::frame;
    use super::super::message::Message;
    use super::*;
    use proptest::prelude::*;

    /// A neighbour that has proven itself, and says what it likes.
    fn neighbour(hub: &Arc<Hub>, place: &Place, id: CommId, from: u32, to: u32) -> TcpStream {
        let address = place.addresses[place.addresses.len() - 1];
        let mut peer = TcpStream::connect(address).expect("somebody listens");
        peer.set_read_timeout(Some(LIMIT)).expect("a limit");
        let mut challenge = [0; proof::CHALLENGE];
        peer.read_exact(&mut challenge).expect("a challenge");
        let purpose = Purpose::Link { has_table: true };
        let claim = Claim { version: Version::own(), id, purpose, from, to };
        peer.write_all(&claim.prove(&place.secret, &challenge, [1; 32])).expect("it is read");
        let mut verdict = [0; VERDICT];
        peer.read_exact(&mut verdict).expect("a verdict");
        assert_eq!(verdict[0], 1, "{}", hub.addresses.len());
        peer
    }

    proptest! {
        #[test]
        fn bytes_that_are_no_frames_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300), most in 0..1000_usize) {
            let mut rest = &bytes[..];
            while let Ok(Some(content)) = frame::next(rest, most) {
                prop_assert!(content.len() <= most && content.end <= rest.len());
                let _ = postcard::from_bytes::<Message<'_>>(&rest[content.clone()]);
                rest = &rest[content.end..];
            }
        }
    }

    /// Even who knows the secret can only end its own connection: what it makes up harms nobody else.
    #[test]
    fn a_neighbour_that_talks_nonsense_is_taken_for_dead() {
        let dice = &mut Dice(7);
        for _ in 0..20 {
            let (hub, place) = {
                let hub = process();
                let place = place(&hub);
                (hub, place)
            };
            let nodes: Vec<_> = (0..3).map(|rank| Node::come(&hub, &place, rank, 3)).collect();
            all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
            let id = nodes[0].meeting.uplink().expect("a replica").comm_id();
            let mut peer = neighbour(&hub, &place, id, 2, 0);
            let mut bytes = Vec::new();
            for _ in 0..1 + dice.roll(20) {
                frame::push(&mut bytes, |bytes| {
                    // The first byte says which message it is.
                    bytes.push(u8::try_from(dice.roll(14)).expect("few"));
                    bytes.extend(
                        (0..dice.roll(40)).map(|_| u8::try_from(dice.roll(256)).expect("a byte")),
                    );
                });
            }
            let _ = peer.write_all(&bytes);
            drop(peer);
            for (rank, result) in
                each(&nodes, |_, node| node.exchange("barrier", b"", LIMIT)).into_iter().enumerate()
            {
                let error = result.expect_err("rank 2 is not what it was");
                assert!(
                    error.is_fatal() || matches!(error, Error::ValueMismatch(_)),
                    "rank {rank}: {error}"
                );
            }
            // The process goes on.
            let again = super::place(&hub);
            let nodes: Vec<_> = (0..2).map(|rank| Node::come(&hub, &again, rank, 2)).collect();
            all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
        }
    }
}

/// Real processes: each runs `one_process` of this program.
mod processes {
    use super::*;
    use std::process::{Child, Command as Program, Stdio};

    const RANK: &str = "TYPED_NCCL_TEST_RANK";
    const PATH: &str = "TYPED_NCCL_TEST_PATH";
    const SIZE: usize = 5;

    /// Does nothing unless it is started by the test below.
    #[test]
    fn one_process() {
        let (Ok(rank), Ok(path)) = (std::env::var(RANK), std::env::var(PATH)) else { return };
        let rank: usize = rank.parse().expect("a number");
        let meeting =
            crate::control::file(path.as_ref(), rank, SIZE).expect("it can be looked for");
        let hub = super::super::hub::hub().expect("it is there");
        let node = Node::of(meeting, 0, hub, rank);
        loop {
            if let Err(error) = node.exchange("barrier", b"", Duration::from_secs(10)) {
                println!("FOUND {error}");
                return;
            }
        }
    }

    fn start(path: &std::path::Path, rank: usize) -> Child {
        let program = std::env::current_exe().expect("this program");
        let mut program = Program::new(program);
        program.args(["--exact", "control::net::tests::processes::one_process", "--nocapture"]);
        program.env(RANK, rank.to_string()).env(PATH, path).stdout(Stdio::piped());
        program.spawn().expect("it starts")
    }

    #[test]
    fn a_killed_process_is_named_by_all_others() {
        let dice = &mut Dice(3);
        for round in 0..2 {
            let path = std::env::temp_dir().join(format!("typed-nccl-test-{:x}", random()));
            let mut children: Vec<Child> = (0..SIZE).map(|rank| start(&path, rank)).collect();
            thread::sleep(Duration::from_millis(400 + dice.roll(100) as u64));
            let victim = if round == 0 { 0 } else { dice.roll(SIZE) };
            let pid = children[victim].id();
            children[victim].kill().expect("it runs");
            for (rank, child) in children.into_iter().enumerate() {
                let output = child.wait_with_output().expect("it ends");
                let said = String::from_utf8_lossy(&output.stdout);
                if rank != victim {
                    // The others end because of it; who cannot reach one of those names it too.
                    let (said_so, end) = (format!("rank {victim}"), format!("process {pid})"));
                    assert!(said.contains(&said_so) && said.contains(&end), "rank {rank}: {said}");
                }
            }
            std::fs::remove_file(path).expect("rank 0 has written it");
        }
    }
}

/// Threads of each rank submit the same keys, each in an order of its own; all ranks issue in one.
#[test]
fn requests_of_many_threads_are_in_one_order_everywhere() {
    use crate::control::Agenda;

    let nodes = ranks(18);
    let site = Site::caller();
    let issued = each(&nodes, |rank, node| {
        let ticket = node.control.post("Ordered::new", site, vec![]);
        let health = &node.health;
        let patience =
            Patience { health, limit: LIMIT, operation: "share", site, watch: &|_| None };
        node.control.collect(ticket, &patience).expect("all take part");
        let own = Rank::at(rank);
        let agenda = node.control.shared(ticket, |wire| Agenda::new(18, own, wire));
        agenda.listen();
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for thread in 0..4 {
                let (agenda, order) = (&agenda, &order);
                scope.spawn(move || {
                    for round in 0..5 {
                        // A key is used again when its request is issued.
                        let key = format!("{}", (thread + round * usize::from(rank % 2 == 0)) % 4);
                        let key =
                            if rank % 2 == 0 && round > 0 { format!("{thread}") } else { key };
                        let request = agenda.submit(own, &key, site);
                        let started = Instant::now();
                        while !agenda.is_turn(own, &request) {
                            assert!(started.elapsed() < LIMIT, "{}", agenda.report(own, &request));
                            agenda.rest(own, &request, Duration::from_millis(5));
                        }
                        order.lock().expect("no panic").push(key);
                        agenda.issued(own);
                    }
                });
            }
        });
        let last = agenda.submit(own, &format!("only {rank}"), site);
        assert!(rank != 0 || agenda.report(own, &last).contains("have not submitted `only 0`"));
        order.into_inner().expect("no panic")
    });
    for order in &issued {
        assert_eq!((order.len(), order), (20, &issued[0]));
    }
}
