//! The log of calls. Here, since unit tests would build the whole library once more.

use fake_nccl::{Call, Value};
use nccl_sys::{Function, ncclResult_t};

fn call(result: Option<ncclResult_t>) -> Call {
    let list = Value::List(vec![Value::Int(-3), Value::Int(4)]);
    let arguments = [
        ("count", Value::Int(i128::from(u64::MAX))),
        ("comm", Value::Pointer(usize::MAX)),
        ("config", Value::Bytes(vec![0, 0x0a, 0xff])),
        ("empty", Value::Bytes(vec![])),
        ("list", list),
        ("nothing", Value::List(vec![])),
    ];
    let arguments = arguments.map(|(name, value)| (name.to_owned(), value)).into();
    Call { function: Function::ncclCommGrow, thread: 2, result, arguments }
}

#[test]
fn a_line_says_all() {
    for call in [call(None), call(Some(ncclResult_t(-77)))] {
        assert_eq!(call.to_string().parse(), Ok(call));
    }
    for garbled in ["", "ncclGrow 0 -", "ncclSend 0", "ncclSend 0 - a", "ncclSend 0 - a=x1"] {
        assert_eq!(garbled.parse::<Call>(), Err(fake_nccl::Garbled), "{garbled}");
    }
}

#[test]
fn arguments_have_types() {
    let call = call(None);
    assert_eq!(call.int("count"), i128::from(u64::MAX));
    assert_eq!(call.pointer("comm"), usize::MAX);
    assert_eq!(call.bytes("config"), [0, 0x0a, 0xff]);
}
