//! A server on tokio that averages what its requests bring: a thousand of them in flight, on two
//! threads that nothing blocks.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use typed_nccl::{AnyDevice, Avg, Communicator, Error, Host, Result, Seat};

const RANKS: usize = 2;
const REQUESTS: usize = 1000;

/// A number for each rank, and where the average goes.
type Request = (f32, oneshot::Sender<f32>);

/// A rank: it enqueues in the order in which requests come, and waits for none.
async fn rank(
    comm: Communicator<Host<AnyDevice>>,
    mut requests: mpsc::UnboundedReceiver<Request>,
) -> Result<()> {
    let mut answers = Vec::new();
    while let Some((part, answer)) = requests.recv().await {
        let mut x = comm.device().from_slice(&[part])?;
        comm.all_reduce_in_place(&mut x, Avg)?;
        let work = comm.submitted()?;
        answers.push(tokio::spawn(async move {
            work.await?;
            let average = x.to_vec()?;
            // A client that has left misses nothing.
            let _ = answer.send(average[0]);
            Ok::<_, Error>(())
        }));
    }
    for answer in answers {
        answer.await.expect("no panic")?;
    }
    // It waits for the other rank, so it has a thread of its own.
    tokio::task::spawn_blocking(|| comm.finish()).await.expect("no panic")
}

/// A client's numbers, one for each rank, and where the averages go.
type Asked = ([f32; RANKS], [oneshot::Sender<f32>; RANKS]);

/// Hands out what clients ask in one order, which is the order of the ranks' calls.
async fn order(
    mut asked: mpsc::UnboundedReceiver<Asked>,
    ranks: [mpsc::UnboundedSender<Request>; RANKS],
) {
    while let Some((parts, answers)) = asked.recv().await {
        for (rank, request) in ranks.iter().zip(parts.into_iter().zip(answers)) {
            rank.send(request).expect("the rank serves");
        }
    }
}

async fn serve(mut client: TcpStream, asks: mpsc::UnboundedSender<Asked>) -> io::Result<()> {
    let parts = [client.read_f32().await?, client.read_f32().await?];
    let (first, second) = (oneshot::channel(), oneshot::channel());
    asks.send((parts, [first.0, second.0])).expect("calls are ordered");
    drop(asks);
    for average in [first.1, second.1] {
        client.write_f32(average.await.expect("an answer")).await?;
    }
    Ok(())
}

async fn ask(address: std::net::SocketAddr, number: f32) -> io::Result<()> {
    let mut server = TcpStream::connect(address).await?;
    for rank in 0..RANKS {
        server.write_f32(number + rank as f32).await?;
    }
    for _ in 0..RANKS {
        assert_eq!(server.read_f32().await?, number + 0.5);
    }
    Ok(())
}

fn comms() -> Vec<Communicator<Host<AnyDevice>>> {
    std::thread::scope(|scope| {
        let connect = |seat: Seat| {
            scope.spawn(move || {
                let device = Host::any(seat.rank().index() as u32)?;
                Communicator::builder().seat(seat).device(device).build().connect()
            })
        };
        let ranks: Vec<_> = Seat::local(RANKS).into_iter().map(connect).collect();
        let ranks = ranks.into_iter().map(|rank| rank.join().expect("no panic"));
        ranks.collect::<Result<_>>().expect("both connect")
    })
}

#[test]
fn a_server_has_a_thousand_requests_in_flight() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_io().build();
    runtime.expect("a runtime").block_on(async {
        let (channels, calls): (Vec<_>, Vec<_>) =
            (0..RANKS).map(|_| mpsc::unbounded_channel()).unzip();
        let (asks, asked) = mpsc::unbounded_channel();
        let ranks: Vec<_> = comms()
            .into_iter()
            .zip(calls)
            .map(|(comm, calls)| tokio::spawn(rank(comm, calls)))
            .collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (mut asking, mut served) = (Vec::new(), Vec::new());
        for number in 0..REQUESTS {
            // One by one: a system keeps few connections that nobody has accepted.
            asking.push(tokio::spawn(ask(address, number as f32)));
            let (client, _) = listener.accept().await.expect("a client");
            served.push(tokio::spawn(serve(client, asks.clone())));
        }
        drop(asks);
        // Ranks begin once all have come, so that all are in flight together.
        tokio::spawn(order(asked, channels.try_into().expect("one for each rank")));
        for client in asking.into_iter().chain(served) {
            client.await.expect("no panic").expect("it is answered");
        }
        for rank in ranks {
            rank.await.expect("no panic").expect("it served all");
        }
    });
}
