//! Peers without the secret, and peers with it that send nonsense.

use super::*;

#[test]
fn a_rank_without_the_secret_is_refused_and_learns_why() {
    let hub = process();
    let place = place(&hub);
    let wrong = BootstrapHandle {
        secret: Secret::of_text("guessed"),
        id: place.id,
        addresses: place.addresses.clone(),
    };
    let unauthenticated = Node::join(&hub, &wrong, 1, 2);
    // A rank that is refused without a proof keeps trying until its deadline.
    unauthenticated.waits_until_told(&["TYPED_NCCL_SECRET"]);
    let nodes: Vec<_> = (0..2).map(|rank| Node::join(&hub, &place, rank, 2)).collect();
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
}

/// The ranks meet despite garbage, silent connections, 4 GiB frames, and more connections than the
/// limit.
#[test]
fn unauthenticated_peers_do_not_keep_ranks_from_meeting() {
    let hub = process();
    let place = place(&hub);
    let address = place.addresses[place.addresses.len() - 1];
    let mut connections = Vec::new();
    for n in 0..1500_u32 {
        let Ok(mut unauthenticated) = TcpStream::connect(address) else { continue };
        match n % 3 {
            0 => {}
            1 => drop(unauthenticated.write_all(&[0xff; 4096])),
            _ => drop(unauthenticated.write_all(&u32::MAX.to_le_bytes())),
        }
        connections.push(unauthenticated);
    }
    let nodes: Vec<_> = (0..5).map(|rank| Node::join(&hub, &place, rank, 5)).collect();
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
    drop(connections);
}

/// An unauthenticated peer learns the challenge and the refusal, and nothing else.
#[test]
fn an_unauthenticated_peer_learns_nothing() {
    let hub = process();
    let guessed = Secret::of_text("guessed");
    let (mut peer, _, verdict) = claim(&place(&hub), 0, Version::own(), &guessed);
    let mut rest = Vec::new();
    peer.read_to_end(&mut rest).expect("the end");
    assert!(rest.is_empty());
    assert!(verdict[1..].iter().all(|byte| *byte == 0), "it is no proof that could be passed on");
}

#[test]
fn a_frame_of_4_gib_ends_its_connection_and_takes_no_memory() {
    let hub = process();
    let place = place(&hub);
    let (mut peer, ..) = claim(&place, 0, Version::own(), &place.secret);
    peer.write_all(&u32::MAX.to_le_bytes()).expect("it is read");
    let mut rest = Vec::new();
    assert!(matches!(peer.read_to_end(&mut rest), Ok(0) | Err(_)), "the connection ends");
    let nodes: Vec<_> = (0..2).map(|rank| Node::join(&hub, &place, rank, 2)).collect();
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
}

/// Listens at rank 0's address, and starts rank 1 of 2.
fn pose() -> (std::net::TcpListener, Node) {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    let node = Node::by(&process(), 1, 2, |joiner| {
        joiner.tcp(std::slice::from_ref(&address), Secret::of_text("test").public(), None)
    });
    (listener, node)
}

/// An impostor at rank 0's address gets a claim, whose proof is bound to its challenge, and nothing
/// else.
#[test]
fn an_impostor_of_rank_0_learns_nothing() {
    let (listener, node) = pose();
    let (mut peer, _) = listener.accept().expect("it comes");
    peer.set_read_timeout(Some(LIMIT)).expect("a limit");
    let challenge = proof::challenge([7; 32], None);
    peer.write_all(&challenge).expect("it is read");
    let mut claim = [0; CLAIM];
    peer.read_exact(&mut claim).expect("a claim");
    let proof = Proof { challenge, claim };
    assert!(proof.is_of(&Secret::of_text("test").public()));
    let guessed = Secret::of_text("guessed");
    let verdict = proof.sign_verdict(Some(&guessed), proof::Verdict::Welcome);
    peer.write_all(&verdict).expect("it is read");
    let mut rest = Vec::new();
    assert!(matches!(peer.read_to_end(&mut rest), Ok(0) | Err(_)), "{rest:?}");
    node.waits_until_told(&["TYPED_NCCL_SECRET"]);
}

/// An impostor at rank 0's address cannot keep the ranks from meeting once rank 0 arrives.
#[test]
fn no_verdict_counts_without_a_proof() {
    for code in 0..8 {
        let (listener, node) = pose();
        let address = listener.local_addr().expect("its address").to_string();
        let (mut peer, _) = listener.accept().expect("it comes");
        peer.set_read_timeout(Some(LIMIT)).expect("a limit");
        peer.write_all(&proof::challenge([7; 32], None)).expect("it is read");
        peer.read_exact(&mut [0; CLAIM]).expect("a claim");
        let mut verdict = [9; VERDICT];
        verdict[0] = code;
        peer.write_all(&verdict).expect("it is read");
        let mut rest = Vec::new();
        assert!(matches!(peer.read_to_end(&mut rest), Ok(0) | Err(_)), "{rest:?}");
        drop((peer, listener));
        let first = Node::by(&process(), 0, 2, |joiner| {
            joiner.tcp(std::slice::from_ref(&address), Secret::of_text("test").public(), None)
        });
        let both = [first, node];
        for outcome in each(&both, |_, node| node.exchange("init", b"", LIMIT)) {
            outcome.unwrap_or_else(|error| panic!("verdict {code}: {error}"));
        }
    }
}

/// A finished rendezvous proves that it is over, but only to peers that know the secret.
#[test]
fn the_end_of_a_rendezvous_is_proven() {
    let hub = process();
    let place = place(&hub);
    let nodes: Vec<_> = (0..2).map(|rank| Node::join(&hub, &place, rank, 2)).collect();
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
    let guessed = Secret::of_text("guessed");
    let is_over = || {
        let asked = |secret: &Secret| {
            let (_, proof, verdict) = claim(&place, 1, Version::own(), secret);
            (proof.verify_verdict(&place.secret, &verdict), verdict)
        };
        let (to_unauthenticated, bytes) = asked(&guessed);
        assert_eq!(to_unauthenticated, Some(proof::Verdict::Unproven), "it learns nothing");
        assert!(bytes[1..].iter().all(|byte| *byte == 0), "{bytes:?}");
        let (to_rank, bytes) = asked(&place.secret);
        let is_over = to_rank == Some(proof::Verdict::Ended);
        assert!(!is_over || bytes[1..].iter().any(|byte| *byte != 0), "it is proven: {bytes:?}");
        is_over
    };
    let started = Instant::now();
    while !is_over() {
        assert!(started.elapsed() < LIMIT, "all ranks have their places");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_silent_listener_is_named() {
    let (listener, node) = pose();
    let address = listener.local_addr().expect("its address").to_string();
    node.waits_until_told(&[&address, "it does not answer"]);
}

#[test]
fn only_processes_of_a_job_recognize_its_name() {
    let (job, other) = (JobName::new("srun 7.0"), JobName::new("srun 8.0"));
    let challenge = proof::challenge([7; 32], Some((&job, 80)));
    assert!(job.is_in_challenge(&challenge, 80));
    // Not for another port: a listener there cannot replay it.
    assert!(!job.is_in_challenge(&challenge, 81) && !other.is_in_challenge(&challenge, 80));
    assert!(!job.is_in_challenge(&proof::challenge([7; 32], None), 80));
    let (version, id, purpose) = (Version::own(), CommId::THERE, Purpose::Meet);
    let claim = Claim { version, id, purpose, from: 1, to: 0 };
    let secret = Secret::of_text("test").public();
    let signed = claim.prove((&secret, Some(&job)), &challenge, [1; 32]);
    assert!(signed.is_of(&secret));
    assert!(job.is_in_claim(&signed) && !other.is_in_claim(&signed));
    let challenge_of_another = proof::challenge([8; 32], Some((&job, 80)));
    assert!(!job.is_in_claim(&Proof { challenge: challenge_of_another, ..signed }));
    assert!(!job.is_in_claim(&claim.prove((&secret, None), &challenge, [1; 32])));
}

/// An impostor without the job's name has the job's first port, and refuses its ranks.
#[test]
fn a_refusal_at_the_first_port_does_not_keep_a_job_from_meeting() {
    let posing = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let first = posing.local_addr().expect("its address").to_string();
    let second = meets::free_port();
    thread::spawn(move || {
        for peer in posing.incoming() {
            let Ok(mut peer) = peer else { return };
            let _ = peer.write_all(&proof::challenge([7; 32], None));
            let _ = peer.read_exact(&mut [0; CLAIM]);
            let mut verdict = [0; VERDICT];
            verdict[0] = proof::Verdict::Unproven as u8;
            let _ = peer.write_all(&verdict);
        }
    });
    let addresses = [first, format!("127.0.0.1:{second}")];
    let come = |rank| {
        let job = Some(Job::new("srun 7.0", true));
        Node::by(&process(), rank, 2, |joiner| {
            joiner.tcp(&addresses, Secret::of_text("test").public(), job)
        })
    };
    let one = come(1);
    thread::sleep(Duration::from_millis(200));
    let both = [come(0), one];
    all_well(each(&both, |_, node| node.exchange("init", b"", LIMIT)));
}

/// Both sides learn which rank's secret differs.
#[test]
fn ranks_of_one_job_with_two_secrets_fail_at_once() {
    let address = [format!("127.0.0.1:{}", meets::free_port())];
    let come = |rank, secret| {
        let job = Some(Job::new("srun 7.0", true));
        Node::by(&process(), rank, 3, |joiner| joiner.tcp(&address, Secret::of_text(secret), job))
    };
    let nodes = [come(0, "test"), come(1, "test"), come(2, "another")];
    for outcome in each(&nodes, |_, node| node.exchange("init", b"", LIMIT)) {
        let error = outcome.expect_err("they differ").to_string();
        let words = "ranks 0 and 2 have different secrets: TYPED_NCCL_SECRET must be the same";
        assert!(error.contains(words), "{error}");
    }
}
