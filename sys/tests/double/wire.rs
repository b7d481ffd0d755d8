//! The structs with a size, as they arrive at the library.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

use fake_nccl::{Call, Number, Value};
use nccl_sys::*;

use crate::common::*;

/// The code of the header that is declared.
const HEADER: u32 = 23203;
const MAGIC: u32 = 0xcafe_beef;
const UNDEFINED: c_int = c_int::MIN;

/// What arrived: `size` bytes, of which the first are the header.
#[track_caller]
fn header<T: Layout>(call: &Call, argument: &str, expected: (usize, u32, u32)) {
    let (size, ..) = expected;
    let field = |name| call.field::<T, u32>(argument, name);
    let arrived = (call.field::<T, usize>(argument, "size"), field("magic"), field("version"));
    assert_eq!(arrived, expected, "{} of {}", T::NAME, call.function);
    assert_eq!(call.bytes(argument).len(), size);
    let last = T::FIELDS.iter().rfind(|field| field.offset < size);
    let last = last.expect("it has fields");
    assert_eq!(size, last.offset + last.size, "the end of {}", last.name);
    assert!(size <= size_of::<T>());
}

/// The names of the fields after the header which are not `expected`.
fn other_than<T: Layout, N: Number + PartialEq>(
    call: &Call,
    argument: &str,
    expected: N,
) -> Vec<&'static str> {
    let fields = T::FIELDS.iter().filter(|field| field.offset >= 16);
    fields
        .filter(|field| field.size == size_of::<N>())
        .filter(|field| call.field::<T, N>(argument, field.name) != expected)
        .map(|field| field.name)
        .collect()
}

#[test]
fn a_communicators_configuration() {
    let (fake, api) = double("config");
    let mut id = ncclUniqueId::zeroed();
    assert_eq!(call!(api, ncclGetUniqueId(&mut id)), OK);
    let mut config = ncclConfig_t::new();
    let (mut comm, mut other) = (NCCL_COMM_NULL, NCCL_COMM_NULL);
    fake.clear();

    assert_eq!(call!(api, ncclCommInitRankConfig(&mut comm, 4, id, 1, &mut config)), OK);
    let made = call!(api, ncclCommInitRankScalable(&mut other, 4, 2, 1, &mut id, &mut config));
    assert_eq!(made, OK);
    assert_eq!(call!(api, ncclCommSplit(comm, 0, 0, &mut other, &mut config)), OK);
    let shrunk = call!(api, ncclCommShrink(comm, &mut 3, 1, &mut other, &mut config, 0));
    assert_eq!(shrunk, OK);
    let grown = call!(api, ncclCommGrow(comm, 5, &id, -1, &mut other, &mut config));
    assert_eq!(grown, OK);

    let log = fake.log();
    assert_eq!(log.len(), 5);
    for call in &log {
        // Four bytes of padding follow.
        header::<ncclConfig_t>(call, "config", (116, MAGIC, HEADER));
        assert_eq!(size_of::<ncclConfig_t>(), 120);
        assert!(other_than::<ncclConfig_t, c_int>(call, "config", UNDEFINED).is_empty());
        assert!(other_than::<ncclConfig_t, usize>(call, "config", 0).is_empty());
    }
    assert_eq!(log[0].bytes("commId"), id.to_bytes());
    let ids = Value::List(vec![Value::Bytes(id.to_bytes().into())]);
    assert_eq!(*log[1].argument("commIds"), ids);
    assert_eq!(*log[3].argument("excludeRanksList"), Value::List(vec![Value::Int(3)]));
}

#[test]
fn a_field_that_is_set_arrives_in_its_place() {
    let (fake, api) = double("config_fields");
    let mut config = ncclConfig_t {
        blocking: 1,
        netName: c"Socket".as_ptr(),
        graphStreamOrdering: 5,
        nvlsHostMode: 2,
        ..ncclConfig_t::new()
    };
    let mut comm = NCCL_COMM_NULL;
    let id = ncclUniqueId::from_bytes([1; 128]);
    assert_eq!(call!(api, ncclCommInitRankConfig(&mut comm, 1, id, 0, &mut config)), OK);
    let none = ptr::null_mut();
    assert_eq!(call!(api, ncclCommSplit(comm, 0, 0, &mut comm, none)), OK);

    let log = fake.log();
    let bytes = log[0].bytes("config");
    assert_eq!(bytes[16..20], 1_i32.to_ne_bytes());
    assert_eq!(bytes[32..40], config.netName.addr().to_ne_bytes());
    assert_eq!(bytes[92..96], 5_i32.to_ne_bytes());
    assert_eq!(bytes[112..116], 2_i32.to_ne_bytes());
    let set = other_than::<ncclConfig_t, c_int>(&log[0], "config", UNDEFINED);
    assert_eq!(set, ["blocking", "graphStreamOrdering", "nvlsHostMode"]);
    assert_eq!(log[1].pointer("config"), 0, "no configuration is none");
}

#[test]
fn a_collectives_configuration() {
    let (fake, api) = double("collective");
    let comm = join(api, 0, 2);
    let config = &ncclCollConfig_t::new();
    fake.clear();

    let all = [
        call!(api, ncclAllReduceConfig(FROM, TO, 8, F32, SUM, comm, STREAM, config)),
        call!(api, ncclBroadcastConfig(FROM, TO, 8, F32, 1, comm, STREAM, config)),
        call!(api, ncclReduceConfig(FROM, TO, 8, F32, SUM, 1, comm, STREAM, config)),
        call!(api, ncclAllGatherConfig(FROM, TO, 8, F32, comm, STREAM, config)),
        call!(api, ncclReduceScatterConfig(FROM, TO, 8, F32, SUM, comm, STREAM, config)),
        call!(api, ncclAlltoAllConfig(FROM, TO, 8, F32, comm, STREAM, config)),
        call!(api, ncclGatherConfig(FROM, TO, 8, F32, 1, comm, STREAM, config)),
        call!(api, ncclScatterConfig(FROM, TO, 8, F32, 1, comm, STREAM, config)),
    ];
    assert_eq!(all, [OK; 8]);
    for call in fake.log() {
        header::<ncclCollConfig_t>(&call, "config", (72, MAGIC, HEADER));
        let set = other_than::<ncclCollConfig_t, c_int>(&call, "config", UNDEFINED);
        assert_eq!(set, ["forceAlgSelection"]);
        assert_eq!(call.field::<ncclCollConfig_t, c_int>("config", "forceAlgSelection"), 1);
        // The pointers, and the profiler's tag.
        assert!(other_than::<ncclCollConfig_t, u64>(&call, "config", 0).is_empty());
    }
}

#[test]
fn a_simulations_result() {
    let (fake, api) = double("simulation");
    let mut info = ncclSimInfo_t::new();
    assert_eq!(call!(api, ncclGroupStart()), OK);
    assert_eq!(call!(api, ncclGroupSimulateEnd(&mut info)), OK);
    assert_eq!(info.estimatedTime, 0.0);
    let call = &fake.log()[1];
    // Four bytes of padding follow.
    header::<ncclSimInfo_t>(call, "simInfo", (20, 0x7468_5283, HEADER));
    assert_eq!(size_of::<ncclSimInfo_t>(), 24);
    assert_eq!(call.field::<ncclSimInfo_t, f32>("simInfo", "estimatedTime"), -1.0);
}

#[test]
fn properties() {
    let (fake, api) = double("properties");
    let comm = join(api, 1, 3);
    fake.clear();
    let mut properties = ncclCommProperties_t::new();
    assert_eq!(call!(api, ncclCommQueryProperties(comm, &mut properties)), OK);
    assert_eq!((properties.rank, properties.nRanks), (1, 3));
    let call = &fake.log()[0];
    // Five bytes of padding follow.
    header::<ncclCommProperties_t>(call, "props", (147, MAGIC, HEADER));
    assert_eq!(size_of::<ncclCommProperties_t>(), 152);
    assert!(call.bytes("props")[16..].iter().all(|byte| *byte == 0));
}

#[test]
fn requirements() {
    let (fake, api) = double("requirements");
    fake.set_device_api(true);
    let comm = join(api, 1, 3);
    fake.clear();
    let needs = ncclDevCommRequirements_t::new();
    let mut made = MaybeUninit::<ncclDevComm_t>::uninit();
    assert_eq!(call!(api, ncclDevCommCreate(comm, &needs, made.as_mut_ptr())), OK);
    let call = &fake.log()[0];
    // Four bytes of padding follow.
    header::<ncclDevCommRequirements_t>(call, "reqs", (116, MAGIC, HEADER));
    assert_eq!(size_of::<ncclDevCommRequirements_t>(), 120);
    let set = other_than::<ncclDevCommRequirements_t, c_int>(call, "reqs", 0);
    assert_eq!(set, ["ginContextCount", "ginTrafficClass", "ginCustomStride"]);
    let field = |name| call.field::<ncclDevCommRequirements_t, c_int>("reqs", name);
    assert_eq!(set.into_iter().map(field).collect::<Vec<_>>(), [4, UNDEFINED, 1]);
    let set = other_than::<ncclDevCommRequirements_t, u8>(call, "reqs", 0);
    assert_eq!(set, ["ginStrongSignalsRequired", "ginVaSignalsRequired"]);
    assert!(other_than::<ncclDevCommRequirements_t, usize>(call, "reqs", 0).is_empty());

    // SAFETY: 2.32 writes this struct when it succeeds.
    let made = unsafe { made.assume_init() };
    assert_eq!((made.version, made.rank, made.nRanks), (HEADER, 1, 3));
    assert_eq!(fake.live().device_communicators, 1);
    assert_eq!(call!(api, ncclDevCommDestroy(comm, &made)), OK);
    assert_eq!(fake.live().device_communicators, 0);
}

#[test]
fn a_wish_for_encryption() {
    let (fake, api) = double("encryption");
    assert_eq!(call!(api, ncclSetEncryption(&ncclEncryptionConfig_t::new())), OK);
    let call = &fake.log()[0];
    header::<ncclEncryptionConfig_t>(call, "config", (32, MAGIC, HEADER));
    assert_eq!(call.field::<ncclEncryptionConfig_t, c_int>("config", "mode"), 0);
    assert_eq!(call.field::<ncclEncryptionConfig_t, usize>("config", "psk"), 0);
}

/// Two structs must not be newer than the library; this is what `for_library` is for.
#[test]
fn structs_as_old_as_the_library() {
    for (text, code, properties_end, needs_end) in [
        ("2.29.3", 22903, 34, 72),
        ("2.29.7", 22907, 52, 84),
        ("2.30.7", 23007, 52, 94),
        ("2.31.2", 23102, 144, 116),
        ("2.32.3", 23203, 147, 116),
    ] {
        let (fake, api) = release(text, &format!("as_old-{text}"));
        fake.set_device_api(true);
        let comm = join(api, 0, 1);
        fake.clear();
        let mut made = MaybeUninit::<ncclDevComm_t>::uninit();
        let loaded = api.version();
        let mut properties = ncclCommProperties_t::for_library(loaded).expect("2.29 has it");
        assert_eq!(call!(api, ncclCommQueryProperties(comm, &mut properties)), OK);
        let needs = ncclDevCommRequirements_t::for_library(loaded).expect("2.29 has it");
        assert_eq!(call!(api, ncclDevCommCreate(comm, &needs, made.as_mut_ptr())), OK);
        let log = fake.log();
        header::<ncclCommProperties_t>(&log[0], "props", (properties_end, MAGIC, code));
        header::<ncclDevCommRequirements_t>(&log[1], "reqs", (needs_end, MAGIC, code));

        if loaded < BOUND {
            let mut newer = ncclCommProperties_t::new();
            assert_eq!(call!(api, ncclCommQueryProperties(comm, &mut newer)), IA);
            let newer = ncclDevCommRequirements_t::new();
            assert_eq!(call!(api, ncclDevCommCreate(comm, &newer, made.as_mut_ptr())), IA);
        }
    }
}
