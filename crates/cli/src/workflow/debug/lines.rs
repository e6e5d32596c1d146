//! The debugger, a line for each command.

use std::io::{BufRead, IsTerminal};

use tokio::sync::mpsc;

use super::session::{After, Session};
use super::words;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Screen;

/// Lines of standard input. Read beside everything else, so that Ctrl-C is heard while nobody types.
fn stdin_lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

pub async fn serve(session: &mut Session<'_>, screen: &mut Screen) -> Result<Exit, Failure> {
    let asks = std::io::stdin().is_terminal();
    let mut lines = stdin_lines();
    loop {
        if asks {
            screen.text("> ")?;
        }
        let line = tokio::select! {
            line = lines.recv() => line,
            () = session.interrupted() => None,
        };
        // At the end of the input nobody steers any more; the run stays where it is.
        let Some(line) = line else { return session.obey(screen, words::Wish::Quit).await.map(|_| session.exit()) };
        if !asks && !line.trim().is_empty() {
            screen.line(&format!("> {}", crate::output::text::clean(line.trim())))?;
        }
        let wish = match words::read(&line) {
            Ok(wish) => wish,
            Err(what) => {
                screen.line(&what)?;
                continue;
            }
        };
        match session.obey(screen, wish).await {
            Ok(After::Stay) => {}
            Ok(After::Leave(exit)) => return Ok(exit),
            // What the server does not want changes nothing; somebody may want something else.
            Err(failure @ (Failure::Refused(_) | Failure::Usage(_))) => screen.notes().failure(&failure, false),
            Err(failure) => return Err(failure),
        }
    }
}
