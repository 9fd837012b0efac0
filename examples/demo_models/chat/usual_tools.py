"""The tools that people try first, with the ways they ask for them.

Data alone: names, descriptions, parameters (each with its usual names and what fills it), and wordings, in which
{0}, {1} stand for the arguments in the order of the parameters.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Usual:
    """Tools of one `family` answer the same request, so only one of them is offered at a time."""

    family: str
    names: tuple[str, ...]
    descriptions: tuple[str, ...]
    parameters: tuple[tuple[tuple[str, ...], str], ...]
    wordings: tuple[str, ...]


_PLACE = (("city", "city", "location", "place"), "place")
_A, _B = (("a", "a", "x", "first"), "integer"), (("b", "b", "y", "second"), "integer")

USUAL = (
    Usual("weather", ("get_weather", "get_weather", "weather", "current_weather"),
        ("Current weather", "Get the weather in a city.", "Get the current weather for a location.", "Weather in a city"), (_PLACE,),
        ("What's the weather in {0}?", "What is the weather in {0}?", "Weather in {0}?", "How is the weather in {0} today?", "Is it raining in {0}?",
         "What is the weather like in {0}?", "Tell me the weather in {0}.", "How warm is it in {0}?", "What is the current weather in {0}?")),
    Usual("weather", ("get_forecast", "get_weather", "weather_forecast"), ("Weather forecast", "Forecast for some days"), (_PLACE, (("days",), "integer")),
        ("Weather in {0} for {1} days?", "What's the weather in {0} for the next {1} days?", "Give me the {1} day forecast for {0}.", "Forecast for {0}, {1} days.")),
    Usual("weather", ("get_weather", "get_temperature"), ("Get the weather in a city.", "Temperature in a city"), (_PLACE, (("unit", "units"), "celsius|fahrenheit")),
        ("What's the weather in {0} in {1}?", "How warm is it in {0} in {1}?", "Temperature in {0}, {1}.")),
    Usual("time", ("get_time", "get_time", "current_time", "get_current_time"), ("Current time in a city", "Get the time in a city.", "Tell the time."), (_PLACE,),
        ("What time is it in {0}?", "Tell me the time in {0}.", "What is the time in {0}?", "Time in {0}?")),
    Usual("add", ("add", "add", "add_numbers", "sum", "plus"), ("Add two numbers", "Add two numbers.", "Add a and b.", "Sum of two numbers"), (_A, _B),
        ("What is {0} plus {1}?", "Add {0} and {1}.", "{0} + {1}?", "Sum of {0} and {1}?", "Add {0} to {1}.", "What is {0} + {1}?", "Add {0} and {1}")),
    Usual("multiply", ("multiply", "multiply", "multiply_numbers", "times"), ("Multiply two numbers", "Multiply two numbers.", "Multiply a and b."), (_A, _B),
        ("What is {0} times {1}?", "Multiply {0} by {1}.", "{0} * {1}?", "Multiply {0} and {1}.", "What is {0} * {1}?", "Multiply {0} by {1}")),
    Usual("subtract", ("subtract", "minus"), ("Subtract two numbers", "Subtract b from a."), (_A, _B), ("What is {0} minus {1}?", "{0} - {1}?", "Subtract {1} from {0}.")),
    Usual("divide", ("divide", "divide_numbers"), ("Divide two numbers", "Divide a by b."), (_A, _B), ("What is {0} divided by {1}?", "Divide {0} by {1}.", "{0} / {1}?")),
    Usual("message", ("send_message", "send_message", "message"), ("Send a message", "Send a message to somebody."), ((("to", "recipient", "person"), "person"), (("text", "message", "body"), "text")),
        ('Send "{1}" to {0}.', 'Tell {0}: "{1}"', 'Message {0} saying "{1}".', 'Send {0} the message "{1}".')),
    Usual("mail", ("send_email", "send_mail"), ("Send an email", "Send an email."), ((("to", "recipient"), "person"), (("subject",), "text")),
        ('Send an email to {0} with subject "{1}".', 'Email {0}, subject "{1}".', 'Mail {0} about "{1}".')),
    Usual("timer", ("set_timer", "timer"), ("Set a timer", "Set a timer."), ((("minutes",), "integer"),), ("Set a timer for {0} minutes.", "Wake me in {0} minutes.", "Timer {0} minutes please.")),
    Usual("alarm", ("set_alarm", "set_reminder"), ("Set an alarm", "Remind of something"), ((("time", "when"), "moment"),), ("Set an alarm for {0}.", "Remind me at {0}.", "Wake me at {0}.")),
    Usual("price", ("get_price", "stock_price", "get_stock_price"), ("Price of a stock", "Get the price of a stock.", "Get a stock's price"), ((("symbol", "ticker"), "code"),),
        ("What is the price of {0}?", "Price of {0}?", "How much is {0}?", "What is the stock price of {0}?")),
    Usual("search", ("search", "search", "search_web", "web_search"), ("Search the web", "Search the web.", "Find pages on the web"), ((("query", "query", "q"), "query"),),
        ("Search for {0}.", "Look up {0}.", "Find pages about {0}.", 'Search the web for "{0}".', "Search for {0}")),
    Usual("convert", ("convert", "convert_currency"), ("Convert an amount", "Convert an amount of money."), ((("amount",), "number"), (("to", "currency"), "word")), ("Convert {0} to {1}.", "How much is {0} in {1}?")),
    Usual("table", ("book_table", "reserve_table"), ("Book a table", "Book a table in the restaurant."), ((("name",), "person"), (("people", "guests"), "integer")),
        ("Book a table for {1} under {0}.", "A table for {1}, name {0}.", "Book a table for {1} people, name {0}.")),
    Usual("song", ("play_song", "play_music"), ("Play a song", "Play music."), ((("title", "song"), "title"),), ("Play {0}.", 'Play the song "{0}".', "I want to hear {0}.")),
    Usual("order", ("get_order", "order_status", "lookup_order"), ("Look up an order", "Status of an order"), ((("order_id", "id", "number"), "code"),), ("Where is order {0}?", "What is the status of order {0}?", "Look up order {0}.")),
    Usual("person", ("Person", "save_person", "add_contact"), ("A person", "Save a person"), ((("name",), "person"), (("age",), "integer")),
        ("{0} is {1} years old.", "Name {0}, age {1}.", "This is {0}, {1} years old.", "{0} is {1}.")),
    Usual("translate", ("translate", "translate_text"), ("Translate a text", "Translate a text into a language."), ((("text",), "text"), (("language", "to"), "word")), ('Translate "{0}" to {1}.', 'What is "{0}" in {1}?')),
    Usual("lights", ("set_light", "switch_light"), ("Switch a light", "Switch a light on or off"), ((("room",), "word"), (("state",), "on|off")), ("Turn {1} the light in the {0}.", "Light {1} in the {0}.", "Switch {1} the {0} light.")),
    Usual("magic", ("magic_function", "magic"), ("Applies a magic function to an input.", "Do magic."), ((("input", "number"), "integer"),), ("What is the magic function of {0}?", "Apply magic to {0}.", "What is magic_function({0})?")),
)  # fmt: skip
