//! Bad input: a typed error says what was asked, what was found and what fixes it. The other ranks
//! get an error, and the communicator stays usable.

use typed_nccl::{
    AnyDevice, Buffer, CallConfig, CommConfig, Communicator, CtaPolicy, Ctas, Error, Host,
    Multicast, Network, Rank, Result, Root, Seat, Sum, tag,
};

use crate::ranks::spmd;

/// Runs `refused` on rank 1 and `fine` on the others, checks that all get an error and that the
/// communicator stays usable.
fn refused_on_rank_1(
    refused: impl Fn(&Communicator<Host<AnyDevice>>) -> Result<()> + Sync,
    fine: impl Fn(&Communicator<Host<AnyDevice>>) -> Result<()> + Sync,
    check: impl Fn(&Error) + Sync,
) {
    let ranks = Seat::local(3);
    std::thread::scope(|scope| {
        for seat in ranks {
            let (refused, fine, check) = (&refused, &fine, &check);
            scope.spawn(move || {
                let rank = seat.rank();
                let device = Host::any(rank.index() as u32).expect("a host device");
                let comm = seat.init(device).expect("init");
                if rank.index() == 1 {
                    let error = refused(&comm).expect_err("refused");
                    assert!(error.is_refusal() && !error.is_fatal(), "{error:?}");
                    check(&error);
                } else {
                    fine(&comm).expect("enqueued");
                    match comm.sync(comm.stream()) {
                        Err(Error::Refused(told)) => {
                            assert_eq!(told.by, Rank::from_index(1));
                            check(&told.reason);
                            let text = told.to_string();
                            assert!(text.contains("rank 1 refused"), "{text}");
                        }
                        other => panic!("rank {rank} was not told: {other:?}"),
                    }
                    comm.sync(comm.stream()).expect("told once");
                }
                comm.health().expect("unharmed");
                let mut x = comm.device().from_slice(&[1_u32]).expect("memory");
                comm.all_reduce_in_place(&mut x, Sum).expect("enqueued");
                assert_eq!(x.to_vec().expect("still usable"), [3]);
                comm.finish().expect("finish");
            });
        }
    });
}

fn zeros(comm: &Communicator<Host<AnyDevice>>, len: usize) -> Buffer<f32, Host<AnyDevice>> {
    comm.device().zeros(len).expect("memory")
}

fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

#[test]
fn a_receive_buffer_of_another_length() {
    refused_on_rank_1(
        |comm| comm.all_gather(&zeros(comm, 1024), &mut zeros(comm, 2048)),
        |comm| comm.all_gather(&zeros(comm, 1024), &mut zeros(comm, 3072)),
        |error| {
            let Error::BadLength(bad) = error else { panic!("{error:?}") };
            assert_eq!((bad.found, bad.needed), (2048, 3072));
            says(
                error,
                &["all_gather", "receive buffer holds 2048 f32", "3 ranks x 1024 need 3072"],
            );
            says(error, &["bad_input.rs:", "nothing was sent, and the other ranks are told"]);
        },
    );
    refused_on_rank_1(
        |comm| comm.all_reduce(&zeros(comm, 8), &mut zeros(comm, 7), Sum),
        |comm| comm.all_reduce(&zeros(comm, 8), &mut zeros(comm, 8), Sum),
        |error| says(error, &["receive buffer holds 7 f32", "need 8"]),
    );
    refused_on_rank_1(
        |comm| comm.reduce_scatter(&zeros(comm, 8), &mut zeros(comm, 3), Sum),
        |comm| comm.reduce_scatter(&zeros(comm, 9), &mut zeros(comm, 3), Sum),
        |error| says(error, &["send buffer holds 8 f32", "3 ranks x 3 need 9"]),
    );
}

#[test]
fn a_length_that_the_ranks_do_not_divide() {
    refused_on_rank_1(
        |comm| comm.all_gather_in_place(&mut zeros(comm, 10)),
        |comm| comm.all_gather_in_place(&mut zeros(comm, 9)),
        |error| says(error, &["all_gather", "buffer holds 10 f32", "3 ranks x 4 need 12"]),
    );
    refused_on_rank_1(
        |comm| comm.all_to_all(&zeros(comm, 4), &mut zeros(comm, 4)),
        |comm| comm.all_to_all(&zeros(comm, 6), &mut zeros(comm, 6)),
        |error| says(error, &["all_to_all", "buffer holds 4 f32"]),
    );
}

#[test]
fn a_root_out_of_range() {
    refused_on_rank_1(
        |comm| comm.broadcast_in_place(&mut zeros(comm, 4), 7),
        |comm| comm.broadcast_in_place(&mut zeros(comm, 4), 0),
        |error| {
            assert!(matches!(error, Error::NoSuchRank(bad) if bad.asked == 7 && bad.size == 3));
            says(error, &["broadcast", "no rank 7", "of 3", "0 to 2", "ranks are told"]);
        },
    );
    refused_on_rank_1(
        |comm| comm.reduce(&zeros(comm, 4), Sum, 3).map(drop),
        |comm| comm.reduce(&zeros(comm, 4), Sum, 0).map(drop),
        |error| says(error, &["reduce", "no rank 3"]),
    );
}

#[test]
fn a_root_that_gives_no_buffer() {
    refused_on_rank_1(
        |comm| comm.scatter(Root::<&Buffer<f32, _>>::There(comm.rank()), &mut zeros(comm, 4)),
        |comm| comm.scatter(Root::<&Buffer<f32, _>>::at(1), &mut zeros(comm, 4)),
        |error| says(error, &["scatter", "rank 1 is the root itself", "Root::Here(&buffer)"]),
    );
}

#[test]
fn more_than_memory_can_hold() {
    refused_on_rank_1(
        |comm| {
            // No elements, so a view of it can be of any claimed length only by a bad range; the
            // count itself overflows where n blocks of it are asked for.
            let big: Buffer<u8, _> = comm.device().zeros(0)?;
            comm.all_gather(&big.slice(0..usize::MAX), &mut comm.device().zeros::<u8>(0)?)
        },
        |comm| comm.all_gather(&zeros(comm, 1), &mut zeros(comm, 3)),
        |error| says(error, &["range 0..18446744073709551615 reaches past a buffer of 0 elements"]),
    );
    let device = Host::local().expect("a host device");
    let error = device.zeros::<f64>(usize::MAX / 4).expect_err("too much");
    says(&error, &["f64 of 8 bytes", "more than a buffer can hold", "take fewer elements"]);
    // Whatever allocates, the error names the program's line.
    let (much, line) = (usize::MAX / 4, line!());
    let outcomes = [
        device.zeros::<f64>(much).map(drop),
        device.nccl_zeros::<f64>(much).map(drop),
        device.pinned::<f64>(much).map(drop),
        typed_nccl::Device::zeros::<f64>(&device, much).map(drop),
        typed_nccl::DynBuffer::zeros(&device, typed_nccl::DType::F64, much).map(drop),
    ];
    for (error, at) in outcomes.map(|outcome| outcome.expect_err("too much")).iter().zip(line + 2..)
    {
        says(error, &[&format!("(at tests/bad_input.rs:{at})")]);
    }
    let error = device.zeros::<u8>(isize::MAX as usize - 4096).expect_err("too much");
    says(&error, &["host:0 has no", "bytes of memory"]);
}

#[test]
fn a_shift_as_far_as_numbers_go() -> Result<()> {
    spmd::<Host>(3, |place| {
        let comm = place.init()?;
        let ring = typed_nccl::Cart::over(&comm, [3], true)?;
        for by in [isize::MIN, isize::MIN + 1, -4, 0, 5, isize::MAX - 1, isize::MAX] {
            assert_eq!(ring.shift(0, by), Some(comm.ring(by)), "{by}");
        }
        let line = typed_nccl::Cart::over(&comm, [3], false)?;
        assert_eq!((line.shift(0, isize::MIN), line.shift(0, isize::MAX)), (None, None));
        comm.finish()
    })
}

#[test]
fn a_grid_of_more_places_than_ranks() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let error = typed_nccl::Cart::over(&comm, [2, 3], true).expect_err("too many");
        says(&error, &["dimensions [2, 3] has 6 places, and the communicator has 2 ranks"]);
        let error = typed_nccl::Cart::over(&comm, [usize::MAX, 2], true).expect_err("too many");
        says(&error, &["has more than 18446744073709551615 places", "product is 2"]);
        assert!(matches!(error, Error::BadGrid(_)));
        comm.finish()
    })
}

#[test]
fn a_view_past_its_buffer() {
    refused_on_rank_1(
        |comm| comm.all_reduce_in_place(&mut zeros(comm, 4).slice_mut(2..5), Sum),
        |comm| comm.all_reduce_in_place(&mut zeros(comm, 3), Sum),
        |error| says(error, &["range 2..5 reaches past a buffer of 4 elements", "bad_input.rs:"]),
    );
    refused_on_rank_1(
        #[expect(clippy::reversed_empty_ranges, reason = "bad input is what is tested")]
        |comm| comm.all_reduce_in_place(&mut zeros(comm, 4).slice_mut(3..2), Sum),
        |comm| comm.all_reduce_in_place(&mut zeros(comm, 3), Sum),
        |error| says(error, &["range 3..2 of a buffer ends before it starts"]),
    );
    let device = Host::local().expect("a host device");
    let mut x = device.zeros::<i32>(4).expect("memory");
    assert!(matches!(x.slice(1..9).to_vec(), Err(Error::BadRange(bad)) if bad.end == 9));
    assert!(matches!(x.slice_mut(1..9).copy_from(&[0; 8]), Err(Error::BadRange(_))));
    let [head, tail] = x.parts_mut([3, 2]);
    assert_eq!((head.len(), tail.to_vec().is_err()), (3, true));
    assert!(matches!(x.copy_from(&[1; 5]), Err(Error::BadLength(bad)) if bad.needed == 5));
    assert_eq!(x.to_vec().expect("unharmed"), [0; 4]);
}

#[test]
fn memory_and_streams_of_another_device() {
    let other = Host::any(9).expect("a host device");
    let (theirs, stream) =
        (other.zeros::<f32>(4).expect("memory"), other.stream().expect("stream"));
    let (theirs, stream) = (std::sync::Mutex::new(theirs), std::sync::Mutex::new(stream));
    refused_on_rank_1(
        |comm| comm.all_reduce(&*theirs.lock().expect("a lock"), &mut zeros(comm, 4), Sum),
        |comm| comm.all_reduce(&zeros(comm, 4), &mut zeros(comm, 4), Sum),
        |error| says(error, &["send buffer is on host:9", "takes host:1", "comm.device()"]),
    );
    refused_on_rank_1(
        |comm| {
            comm.on(&*stream.lock().expect("a lock")).all_reduce_in_place(&mut zeros(comm, 4), Sum)
        },
        |comm| comm.all_reduce_in_place(&mut zeros(comm, 4), Sum),
        |error| says(error, &["stream is on host:9", "takes host:1"]),
    );
}

#[test]
fn an_operator_of_another_communicator() {
    let mut lone = Seat::local(1).remove(0).init(Host::any(0).expect("a device")).expect("init");
    let op = std::sync::Mutex::new(lone.pre_mul_sum(2.0_f32).expect("an operator"));
    refused_on_rank_1(
        |comm| comm.all_reduce_in_place(&mut zeros(comm, 4), &*op.lock().expect("a lock")),
        |comm| comm.all_reduce_in_place(&mut zeros(comm, 4), Sum),
        |error| says(error, &["a PreMulSum of World#", "was used on World#", "tag!"]),
    );
    lone.finish().expect("finish");
}

#[test]
fn two_ranks_on_one_device() -> Result<()> {
    let errors = std::thread::scope(|scope| {
        let threads: Vec<_> = Seat::local(2)
            .into_iter()
            .map(|seat| scope.spawn(|| seat.init(Host::any(5)?).map(drop)))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    for error in errors {
        let error = error.expect_err("refused");
        says(&error, &["ranks 0 and 1 are both on host:5", "device of its own"]);
    }
    Ok(())
}

/// The outcome for ranks 0 and 1 that connect with these configurations.
fn connected(configs: [CommConfig; 2]) -> Vec<Result<()>> {
    let connect = |(seat, config): (Seat, CommConfig)| {
        let device = Host::any(seat.rank().index() as u32)?;
        let builder = Communicator::builder().seat(seat).device(device);
        builder.config(config).build().connect()?.finish()
    };
    std::thread::scope(|scope| {
        let ranks = Seat::local(2).into_iter().zip(configs);
        let threads: Vec<_> = ranks.map(|rank| scope.spawn(move || connect(rank))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// Settings that NCCL needs to be equal are compared before it is called, and both ranks name both
/// values.
#[test]
fn options_that_differ_are_named_on_every_rank() {
    let of = CommConfig::builder;
    let ctas = |least, most| of().ctas(Ctas::between(least, most)).build();
    let cases = [
        ([ctas(4, 16), ctas(4, 8)], "`Ctas::between` (NCCL's maxCTAs) with 16 and 8"),
        ([of().build(), ctas(4, 8)], "(NCCL's minCTAs) with NCCL's choice and 4"),
        (
            [of().ctas(Ctas::any().policy(CtaPolicy::Zero)).build(), of().build()],
            "`Ctas::policy` (NCCL's CTAPolicy) with Zero and NCCL's choice",
        ),
        (
            [
                of().network(Network::named("IB")).build(),
                of().network(Network::named("Socket")).build(),
            ],
            "`Network::named` (NCCL's netName) with \"IB\" and \"Socket\"",
        ),
        (
            [of().multicast(Multicast::Off).build(), of().multicast(Multicast::On).build()],
            "`CommConfig::multicast` (NCCL's nvlsHostMode) with Off and On",
        ),
    ];
    for (configs, why) in cases {
        for outcome in connected(configs) {
            let error = outcome.expect_err("they differ");
            assert!(matches!(error, Error::InitFailed(_)), "{error:?}");
            says(&error, &["ranks 0 and 1 configure", why, "configure all ranks alike"]);
        }
    }
    // Each rank may choose these for itself.
    let own = |class| of().network(Network::any().traffic_class(class)).build();
    assert!(connected([own(1), own(2)]).iter().all(Result::is_ok));
}

#[test]
fn options_out_of_range_are_named_on_every_rank() {
    let of = CommConfig::builder;
    let ctas = |ctas| of().ctas(ctas).build();
    let network = |network| of().network(network).build();
    let cases = [
        (ctas(Ctas::between(0, 4)), "`Ctas::between(0, 4)` is no range within 1 and 64"),
        (ctas(Ctas::between(9, 8)), "`Ctas::between(9, 8)`"),
        (ctas(Ctas::at_most(65)), "`Ctas::between(1, 65)`"),
        (ctas(Ctas::any().cluster(9)), "`Ctas::cluster(9)` is more than 8"),
        (ctas(Ctas::any().multicast(0)), "`Ctas::multicast(0)`"),
        (network(Network::named("")), "`Network::named(\"\")` is no name"),
        (network(Network::named("I\0B")), "is no name"),
        (network(Network::any().channels_per_peer(0)), "`Network::channels_per_peer(0)`"),
        (network(Network::any().traffic_class(1 << 31)), "`Network::traffic_class(2147483648)`"),
        (of().p2p_peers(0).build(), "`p2p_peers(0)`"),
    ];
    for (config, why) in cases {
        for outcome in connected([config.clone(), config]) {
            says(&outcome.expect_err("out of range"), &["rank 0 asks for what no NCCL has", why]);
        }
    }
}

tag!(Half);

#[test]
fn options_of_children_are_compared_too() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let most = 4 + 4 * comm.rank().index() as u32;
        let config = CommConfig::builder().ctas(Ctas::at_most(most)).build();
        let error = comm.split_with::<Half>(0, 0, config).expect_err("they differ");
        says(&error, &["configure `Ctas::between` (NCCL's maxCTAs) with 4 and 8"]);
        let bad = CommConfig::builder().ctas(Ctas::at_most(0)).build();
        let error = comm.split_with::<Half>(0, 0, bad).expect_err("out of range");
        says(&error, &["asks for what no NCCL has", "`Ctas::between(1, 0)`"]);
        comm.finish()
    })
}

#[test]
fn configurations_of_calls_that_differ_are_reported_on_every_rank() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let mut x = comm.device().zeros::<f32>(4)?;
        let tagged = CallConfig::builder().profiler_tag(7).build();
        match comm.rank().index() {
            0 => comm.all_reduce_in_place(&mut x, Sum)?,
            _ => comm.with(&tagged).all_reduce_in_place(&mut x, Sum)?,
        }
        let error = comm.sync(comm.stream()).expect_err("one has a configuration");
        says(&error, &["the `CallConfig` of collective #0 on World differs", "rank 1 called"]);
        comm.with(&tagged).all_reduce_in_place(&mut x, Sum)?;
        comm.finish()
    })
}

#[test]
fn calls_that_differ_are_reported_on_every_rank() -> Result<()> {
    spmd::<Host>(4, |place| {
        let comm = place.init()?;
        let len = if comm.rank().index() == 3 { 1000 } else { 1024 };
        let mut x = comm.device().zeros::<f32>(len)?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        let error = comm.sync(comm.stream()).expect_err("the counts differ");
        says(
            &error,
            &["collective #0 on World differs", "ranks 0, 1 and 2 called all_reduce of 1024"],
        );
        says(&error, &["rank 3 called all_reduce of 1000 f32, Sum, at", "bad_input.rs:"]);
        assert!(matches!(&error, Error::Mismatch(m) if m.calls.len() == 4), "{error:?}");

        // Another operation, another data type, another root, none at all on one rank.
        let mut y = comm.device().zeros::<i32>(4)?;
        match comm.rank().index() {
            0 => comm.broadcast_in_place(&mut y, 0)?,
            1 => comm.broadcast_in_place(&mut y, 1)?,
            _ => comm.all_reduce_in_place(&mut y, Sum)?,
        }
        assert!(matches!(y.to_vec(), Err(Error::Mismatch(_))));
        let len = if comm.rank().index() == 0 { 0 } else { 4 };
        comm.all_reduce_in_place(&mut y.slice_mut(0..len), Sum)?;
        comm.barrier()?;
        while comm.rank().index() == 0 && comm.sync(comm.stream()).is_ok() {
            std::thread::yield_now(); // it went on at once; the report comes when the others arrive
        }
        if comm.rank().index() != 0 {
            assert!(matches!(y.to_vec(), Err(Error::Mismatch(_))));
        }
        y.copy_from(&[1; 4])?;
        comm.all_reduce_in_place(&mut y, Sum)?;
        assert_eq!(y.to_vec()?, [4; 4]);
        comm.finish()
    })
}
