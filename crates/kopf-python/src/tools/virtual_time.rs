//! Virtual time of a sandbox and its operator, for tests.
//!
//! Both run in one thread, on a runtime whose clock follows the system until it is advanced. During
//! an advance, the clock is paused and jumps from timer to timer, whenever everything is idle: the
//! tasks of the runtime, the event loop of Python, and the functions in threads.
//!
//! Tokio moves a paused clock to the next timer when the runtime has nothing to do, unless a
//! blocking task runs. So a blocking task, the *inhibitor*, exists while the clock must not move. It
//! is decided before the thread of the runtime waits ([`VirtualTime::on_park`]), when its own tasks
//! are idle. The event loop and the functions in threads report when they become idle.

use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use kopf_core::sync::Mutex;
use kopf_engine::clock::Clock;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::front::queue::{Entry, Queue};

/// Number of times that the runtime reads its sockets after the event loop became idle, because the
/// loop may have sent a request before.
const SETTLING_ROUNDS: usize = 4;

/// Work for the thread of the runtime.
type Work = Box<dyn FnOnce(&Runtime) + Send>;

/// The time of a sandbox and its operator.
pub(crate) struct VirtualTime {
    handle: OnceLock<Handle>,
    works: Mutex<Option<tokio::sync::mpsc::Sender<Work>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    state: Mutex<State>,
    /// Wakes the runtime when something outside of it became idle.
    nudge: Notify,
    /// The next timer of the event loop.
    deadline: watch::Sender<Option<Instant>>,
    start: Instant,
    /// One clock for all operators, so that time continues across their restarts.
    clock: Clock,
}

#[derive(Default)]
struct State {
    phase: Phase,
    /// Ends the inhibitor when it is dropped.
    inhibitor: Option<mpsc::Sender<()>>,
    /// The queue to the event loop of the running operator.
    queue: Option<Arc<Queue>>,
    is_loop_idle: bool,
    /// Functions that run in threads and do not wait for the engine.
    threads: usize,
}

#[derive(Default)]
enum Phase {
    /// Time follows the system.
    #[default]
    Flowing,
    /// Time jumps from timer to timer.
    Advancing,
    /// Time stands still until everything is idle.
    Settling(Option<oneshot::Sender<()>>),
}

impl State {
    /// Returns `true` if nothing outside of the runtime can need the current time.
    fn is_quiet(&self) -> bool {
        let queue = self.queue.as_ref();
        self.threads == 0 && queue.is_none_or(|queue| self.is_loop_idle && queue.is_idle())
    }
}

impl VirtualTime {
    /// Starts the thread of the runtime.
    pub(crate) fn start() -> std::io::Result<Arc<Self>> {
        let (sender, mut works) = tokio::sync::mpsc::channel::<Work>(1);
        let time = Arc::new(Self {
            handle: OnceLock::new(),
            works: Mutex::new(Some(sender)),
            thread: Mutex::default(),
            state: Mutex::default(),
            nudge: Notify::new(),
            deadline: watch::Sender::new(None),
            start: Instant::now(),
            clock: Clock::system(),
        });
        let parking = Arc::downgrade(&time);
        let runtime = Builder::new_current_thread()
            .enable_all()
            .on_thread_park(move || {
                if let Some(time) = parking.upgrade() {
                    time.on_park();
                }
            })
            .build()?;
        let _ = time.handle.set(runtime.handle().clone());
        let thread = std::thread::Builder::new().name("kopf-virtual".to_owned());
        let thread = thread.spawn(move || {
            while let Some(work) = runtime.block_on(works.recv()) {
                work(&runtime);
            }
            runtime.shutdown_background();
        })?;
        *time.thread.lock() = Some(thread);
        Ok(time)
    }

    /// Ends the thread of the runtime, if necessary when its operator has ended, without waiting for
    /// that.
    pub(crate) fn stop(&self) {
        let works = self.works.lock().take();
        drop(works);
        let has_operator = self.state.lock().queue.is_some();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && !has_operator
        {
            let _ = thread.join();
        }
    }

    /// Returns the runtime.
    pub(crate) fn handle(&self) -> Option<Handle> {
        self.handle.get().cloned()
    }

    /// Returns the clock of operators.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Runs an operator with this queue in the thread of the runtime, and waits for its end. Returns
    /// `false` if the thread has ended or has another operator.
    pub(crate) fn run(&self, queue: &Arc<Queue>, work: Work) -> bool {
        let Some(works) = self.works.lock().clone() else {
            return false;
        };
        let mut state = self.state.lock();
        if state.queue.is_some() {
            return false;
        }
        state.queue = Some(Arc::clone(queue));
        state.is_loop_idle = false;
        drop(state);
        let (done, is_done) = mpsc::channel::<()>();
        let work: Work = Box::new(move |runtime| {
            work(runtime);
            drop(done);
        });
        let is_sent = works.blocking_send(work).is_ok();
        // Fails when the sender is dropped: at the end of the work.
        let _ = is_done.recv();
        self.state.lock().queue = None;
        is_sent
    }

    /// Returns the seconds since the start.
    pub(crate) fn now(&self) -> f64 {
        let _entered = self.handle.get().map(Handle::enter);
        self.start.elapsed().as_secs_f64()
    }

    /// Notes that the event loop waits, until its next timer in `timeout` at the latest.
    pub(crate) fn set_loop_idle(&self, timeout: Option<Duration>) {
        let _entered = self.handle.get().map(Handle::enter);
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.deadline.send_replace(deadline);
        self.state.lock().is_loop_idle = true;
        self.nudge.notify_one();
    }

    /// Notes that the event loop runs.
    pub(crate) fn set_loop_busy(&self) {
        self.state.lock().is_loop_idle = false;
    }

    /// Notes that a function in a thread runs.
    pub(crate) fn enter_thread(&self) {
        self.state.lock().threads += 1;
    }

    /// Notes that a function in a thread has ended, or waits for the engine.
    pub(crate) fn leave_thread(&self) {
        let mut state = self.state.lock();
        state.threads = state.threads.saturating_sub(1);
        drop(state);
        self.nudge.notify_one();
    }

    /// Returns the number of running functions in threads, and whether the event loop is idle.
    pub(crate) fn activity(&self) -> (usize, bool) {
        let state = self.state.lock();
        (state.threads, state.queue.is_none() || state.is_loop_idle)
    }

    /// Begins to advance the time. Returns `None` if it is being advanced already, or the sandbox is
    /// stopped.
    pub(crate) fn advance(self: &Arc<Self>, duration: Duration) -> Option<Advance> {
        let handle = self.handle()?;
        let mut state = self.state.lock();
        if !matches!(state.phase, Phase::Flowing) {
            return None;
        }
        state.phase = Phase::Advancing;
        state.inhibitor = Some(self.inhibit());
        drop(state);
        let (done, is_done) = mpsc::channel();
        let cancel = CancellationToken::new();
        let (time, cancelled) = (Arc::clone(self), cancel.clone());
        // In the thread of the runtime, which must not wait before the phase has changed.
        let task = handle.spawn(async move {
            time.pass(duration, cancelled).await;
            drop(done);
        });
        Some(Advance {
            _task: task,
            is_done: Mutex::new(is_done),
            cancel,
        })
    }

    async fn pass(&self, duration: Duration, cancelled: CancellationToken) {
        tokio::time::pause();
        let now = Instant::now();
        let end = now.checked_add(duration).unwrap_or(now);
        tokio::select! {
            biased;
            () = cancelled.cancelled() => {}
            () = sleep_until(end) => {}
            () = self.attend() => {}
        }
        let settled = self.settle();
        tokio::select! {
            biased;
            () = cancelled.cancelled() => {}
            _ = settled => {}
            () = self.attend() => {}
        }
        tokio::time::resume();
        let mut state = self.state.lock();
        state.phase = Phase::Flowing;
        state.inhibitor = None;
    }

    /// Stops the clock. The receiver gets a value when everything is idle.
    fn settle(&self) -> oneshot::Receiver<()> {
        let (settled, is_settled) = oneshot::channel();
        let mut state = self.state.lock();
        state.phase = Phase::Settling(Some(settled));
        if state.inhibitor.is_none() {
            state.inhibitor = Some(self.inhibit());
        }
        is_settled
    }

    /// Wakes the event loop at its timers, and reads the sockets after it became idle. Never ends.
    async fn attend(&self) {
        let mut deadlines = self.deadline.subscribe();
        let mut fired = None;
        loop {
            let deadline = *deadlines.borrow_and_update();
            let timer = async {
                match deadline {
                    Some(deadline) if fired != Some(deadline) => sleep_until(deadline).await,
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = deadlines.changed() => {}
                () = timer => {
                    fired = deadline;
                    self.wake_loop();
                }
                () = self.nudge.notified() => {
                    for _ in 0..SETTLING_ROUNDS {
                        tokio::task::yield_now().await;
                    }
                }
            }
        }
    }

    fn wake_loop(&self) {
        let queue = self.state.lock().queue.clone();
        if let Some(queue) = queue {
            queue.push(Entry::Run(Box::new(|_| ())));
        }
    }

    /// Called by the thread of the runtime before it waits.
    fn on_park(&self) {
        let queue = self.state.lock().queue.clone();
        if let Some(queue) = queue {
            queue.flush();
        }
        let mut state = self.state.lock();
        let is_quiet = state.is_quiet();
        let State {
            phase, inhibitor, ..
        } = &mut *state;
        match phase {
            Phase::Advancing if is_quiet => *inhibitor = None,
            Phase::Advancing => {
                inhibitor.get_or_insert_with(|| self.inhibit());
            }
            Phase::Settling(settled) if is_quiet => {
                if let Some(settled) = settled.take() {
                    let _ = settled.send(());
                }
            }
            Phase::Flowing | Phase::Settling(_) => {}
        }
    }

    /// Keeps the clock from moving until the result is dropped.
    fn inhibit(&self) -> mpsc::Sender<()> {
        let (release, released) = mpsc::channel::<()>();
        if let Some(handle) = self.handle.get() {
            handle.spawn_blocking(move || {
                let _ = released.recv();
            });
        }
        release
    }
}

/// An advance of the time in progress; it continues to its end if it is dropped.
pub(crate) struct Advance {
    _task: tokio::task::JoinHandle<()>,
    is_done: Mutex<mpsc::Receiver<()>>,
    cancel: CancellationToken,
}

impl Advance {
    /// Waits for the end, at most for this time of the system. Returns `true` at the end.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let ended = self.is_done.lock().recv_timeout(limit);
        !matches!(ended, Err(mpsc::RecvTimeoutError::Timeout))
    }

    /// Ends the advance at the current time.
    pub(crate) fn cancel(&self) {
        self.cancel.cancel();
    }
}
