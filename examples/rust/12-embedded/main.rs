//! An operator inside of a program with its own runtime, log and exit.
//!
//! The operator runs in a thread with its own runtime here; in an async program,
//! `operator.start(client).await` is enough. Several operators can run in one program; they share
//! only the state that they are given.
//!
//! ```console
//! cargo run --bin 12-embedded -- default
//! ```

use std::error::Error;
use std::sync::mpsc;
use std::thread;

use kopf::CancellationToken;
use kopf::prelude::*;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// Events that the operator sends to the rest of the program.
enum News {
    Ready,
    Created(String),
}

async fn create_fn(Name(name): Name, State(news): State<mpsc::Sender<News>>) -> kopf::Result<()> {
    news.send(News::Created(name))?;
    Ok(())
}

/// Runs the operator until it is stopped.
fn operate(namespace: &str, news: &mpsc::Sender<News>, stop: &CancellationToken) -> Outcome {
    let operator = Operator::builder()
        .handler(on::create("kopfexamples", create_fn))
        .namespaces([namespace])
        .state(news.clone())
        .build()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = Client::try_default().await?;
        let running = operator.start(client).await?;
        news.send(News::Ready)?;
        stop.cancelled().await;
        running.stop().await?;
        Ok(())
    })
}

#[allow(clippy::print_stdout)] // it is a program
fn main() -> Outcome {
    let namespace = std::env::args().nth(1).unwrap_or("default".to_owned());
    let (sender, receiver) = mpsc::channel();
    let stop = CancellationToken::new();
    let stopper = stop.clone();
    let thread = thread::spawn(move || operate(&namespace, &sender, &stopper));

    // The program waits for three objects.
    let mut count = 0;
    while count < 3 {
        match receiver.recv() {
            Ok(News::Ready) => println!("The operator is ready."),
            Ok(News::Created(name)) => {
                println!("{name} is created.");
                count += 1;
            }
            // The operator has exited; the outcome has the reason.
            Err(mpsc::RecvError) => break,
        }
    }
    stop.cancel();
    let outcome = thread.join().map_err(|_| "the operator has panicked")?;
    println!("The operator has ended.");
    outcome
}
