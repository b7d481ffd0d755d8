//! What was called, with what, in which order.

use fake_nccl::Value;
use nccl_sys::*;

use crate::common::*;

#[test]
fn a_group_is_in_order() {
    let (fake, api) = double("group");
    let comm = join(api, 0, 2);
    fake.clear();
    assert_eq!(call!(api, ncclGroupStart()), OK);
    assert_eq!(call!(api, ncclAllReduce(FROM, TO, 8, F32, SUM, comm, STREAM)), OK);
    assert_eq!(call!(api, ncclSend(FROM, usize::MAX, F32, 1, comm, STREAM)), OK);
    assert_eq!(call!(api, ncclRecv(TO, 3, F32, 2, comm, STREAM)), IA);
    assert_eq!(call!(api, ncclGroupEnd()), OK);

    let log = fake.log();
    assert_eq!(
        fake.called(),
        [
            Function::ncclGroupStart,
            Function::ncclAllReduce,
            Function::ncclSend,
            Function::ncclRecv,
            Function::ncclGroupEnd,
        ]
    );
    let results: Vec<_> = log.iter().map(|call| call.result).collect();
    assert_eq!(results, [OK, OK, OK, IA, OK].map(Some));
    let named = |name: &str, value| (name.to_owned(), value);
    assert_eq!(
        log[1].arguments,
        [
            named("sendbuff", Value::Pointer(0x1000)),
            named("recvbuff", Value::Pointer(0x2000)),
            named("count", Value::Int(8)),
            named("datatype", Value::Int(7)),
            named("op", Value::Int(0)),
            named("comm", Value::Pointer(comm.addr())),
            named("stream", Value::Pointer(0x57)),
        ]
    );
    assert_eq!(log[2].int("count"), usize::MAX as i128);
    assert_eq!(fake.misuse(), ["ncclRecv: 2 is none of the 2 ranks"]);
    fake.clear();
    assert_eq!((fake.log(), fake.misuse()), (vec![], vec![]));
}
