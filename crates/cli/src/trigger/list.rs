//! `trigger list`.

use super::view::TriggerView;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::{Cell, Column, Paint, Screen};

const COLUMNS: [Column; 9] = [
    Column::left("NAME").whole(),
    Column::left("BROKER"),
    Column::left("QUEUE"),
    Column::left("READ SINCE"),
    Column::right("DELIVERED"),
    Column::right("STARTED"),
    Column::right("REFUSED"),
    Column::left("OWNER").spare(),
    Column::left("LAST ERROR").spare(),
];

fn row(screen: &Screen, trigger: &TriggerView) -> Vec<Cell> {
    let (reading, paint) = trigger.reading(screen);
    let (error, here) = (trigger.error(screen), &trigger.here);
    let count = |number: u64, paint| Cell::painted(number.to_string(), if number == 0 { Paint::Quiet } else { paint });
    vec![
        (&trigger.name).into(),
        (&trigger.broker).into(),
        (&trigger.queue).into(),
        Cell::painted(reading, paint),
        count(here.delivered, Paint::Plain),
        count(here.started, Paint::Plain),
        count(here.refused, Paint::Bad),
        (&trigger.owner.name).into(),
        if error.is_empty() { Cell::new(error) } else { Cell::painted(error, Paint::Bad) },
    ]
}

pub async fn list(client: &Client, screen: &mut Screen) -> Result<Exit, Failure> {
    let mut listing = Listing::new(screen, "triggers", None, &COLUMNS, row);
    listing.read(client, Request::get(["triggers"])).await?;
    listing.finish("There are no triggers.")?;
    Ok(Exit::Success)
}
