"""The page's main flows in a real browser, and texts that would be markup if any were taken for it."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

from flightllm.common.principal import Principal
from flightllm.session.database import Database
from tests.databases import rows
from tests.servers import await_true
from tests.web.support import PASSWORD

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not CHROMIUM or not DRIVER, reason="no chromium and chromedriver here: apt-get install chromium chromium-driver"
    ),
]
SEEN_ERRORS = ("401", "api/files")
"""What the browser itself notes of being asked to sign in, and of files that cannot be read."""
EVIL = "<script>window.broken=1</script><img src=x onerror=window.broken=1>"


class Browser:
    """Chromium as a person uses it: finds things by what they say."""

    def __init__(self, driver: Chrome, page: str) -> None:
        self.driver = driver
        self.page = page

    def all(self, css: str) -> list[WebElement]:
        """Return the elements that a selector finds and that are seen."""
        script = "return [...document.querySelectorAll(arguments[0])].filter((element) => element.checkVisibility())"
        return cast("list[WebElement]", self.driver.execute_script(script, css))

    def button(self, text: str) -> WebElement:
        """Return the button that says something."""
        return next(element for element in self.all("button:not(.cell)") if element.text == text)

    def says(self, text: str) -> bool:
        """Return whether the page says something."""
        try:
            return text in self.driver.find_element(By.TAG_NAME, "body").text
        except (NoSuchElementException, StaleElementReferenceException):  # it is being loaded
            return False

    def await_text(self, text: str) -> None:
        """Wait until the page says something."""
        await_true(lambda: self.says(text))

    def fill(self, name: str, text: str) -> WebElement:
        """Type into the field of an id."""
        await_true(lambda: bool(self.all(f"#{name}")))
        (field,) = self.all(f"#{name}")
        field.clear()
        if all(letter <= "\uffff" for letter in text):
            field.send_keys(text)
        else:  # the driver cannot type it
            script = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))"
            self.driver.execute_script(script, field, text)
        return field

    def sign_in(self, name: str, password: str = PASSWORD) -> None:
        """Sign in from wherever the page is."""
        self.driver.get(self.page)
        self.fill("user", name)
        self.fill("password", password).send_keys(Keys.ENTER)

    def go(self, link: str) -> None:
        """Follow a link of the head, and wait for its page."""
        next(element for element in self.all("nav a") if element.text == link).click()

    def heads(self) -> list[str]:
        """Return the names of a result's columns."""
        return [button.text for button in self.all(".grid th .sort")]

    def column(self, name: str) -> list[str]:
        """Return the texts of a result's column that are in the document."""
        at = self.heads().index(name) + 2
        return [cell.text for cell in self.all(f".grid td[aria-colindex='{at}']")]

    def await_row(self, number: int) -> None:
        """Wait until a row of a result is in the document."""
        await_true(lambda: f"{number:,}" in self.all(".grid tbody")[0].text.split())

    def sort(self, name: str) -> None:
        """Click on the name of a result's column."""
        self.all(".grid th .sort")[self.heads().index(name)].click()

    def run(self, sql: str) -> None:
        """Run a statement by the keyboard, and wait for its end."""
        self.fill("sql", sql).send_keys(Keys.CONTROL, Keys.ENTER)
        await_true(lambda: self.button("Run").is_enabled())


@pytest.fixture(scope="module")
def driver() -> Iterator[Chrome]:
    """Start Chromium without a screen."""
    options = ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def browser(driver: Chrome, page: str) -> Iterator[Browser]:
    """Open the page anew; in the end, its scripts must not have failed."""
    driver.get(page)
    driver.delete_all_cookies()
    driver.execute_script("localStorage.clear()")
    driver.get_log("browser")  # type: ignore[no-untyped-call]
    yield Browser(driver, page)
    noted = [entry["message"] for entry in driver.get_log("browser")]  # type: ignore[no-untyped-call]
    assert [message for message in noted if not any(known in message for known in SEEN_ERRORS)] == []


def test_sign_in_and_out(browser: Browser) -> None:
    """A wrong password is told; the right one opens the page; after signing out nothing is left on it."""
    browser.sign_in("ann", "wrong")
    browser.await_text("wrong user name or password")
    assert browser.driver.switch_to.active_element.get_attribute("id") == "password"
    browser.fill("password", PASSWORD).send_keys(Keys.ENTER)
    browser.await_text("ann (user)")
    assert [link.text for link in browser.all("nav a")] == ["SQL", "Queries", "Tables"]
    browser.run("SELECT 'secret' || 'ly' AS word")
    browser.await_text("secretly")
    browser.button("Sign out").click()
    browser.await_text("Sign in")
    assert "secretly" not in browser.driver.page_source
    browser.driver.back()
    browser.driver.refresh()
    browser.await_text("Sign in")
    assert not browser.says("secretly")


def test_sql(browser: Browser) -> None:
    """Rows come in a grid: NULL is told from text, long texts are shown in full on demand, errors in words."""
    browser.sign_in("root")
    browser.run(
        "SELECT a, CASE WHEN a = 2 THEN NULL ELSE 'NULL' END AS t, repeat('ab', 200) AS long, [a] AS l FROM open_t"
    )
    browser.await_text("The first 1,000 rows; there are more rows, and the query was stopped here")
    assert browser.heads() == ["a", "t", "long", "l"]
    assert [cell.text for cell in browser.all(".grid td .null")] == ["NULL"]
    browser.all("button.cell")[0].send_keys(Keys.ENTER)
    assert browser.all("dialog pre")[0].text == "ab" * 200
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    await_true(lambda: not browser.all("dialog"))
    browser.run("SELECT nothing FROM open_t")
    assert "No field named nothing" in browser.all("[role=alert]")[0].text
    browser.run("CREATE OR REPLACE TABLE made AS SELECT 1 AS x")
    browser.await_text("1 row affected")
    browser.fill("sql", "SELECT ai_gen('Of {a}?', a) FROM open_t")
    browser.button("Explain").click()
    browser.await_text("In total, as predicted")
    assert [head.text for head in browser.all("dl.figures dt")][:3] == ["rows", "calls", "tokens in"]
    assert not browser.says("ai_gen: fields")
    browser.all("details.plan summary")[0].click()
    browser.await_text("ai_gen: fields")
    browser.run("EXPLAIN SELECT a FROM open_t")
    assert "projection=[a]" in browser.all("details.plan pre")[-1].text  # open, as it has no calls


def test_names_are_completed(browser: Browser) -> None:
    """Tab completes a column, and a click writes a column's name."""
    browser.sign_in("root")
    browser.await_text("open_t")
    browser.fill("sql", "SELECT open_t.a FROM op")
    await_true(lambda: [item.text for item in browser.all("#choices li")] == ["open_t\ntable"])
    browser.driver.switch_to.active_element.send_keys(Keys.TAB, " WHERE a < 3", Keys.CONTROL, Keys.ENTER)
    browser.await_text("2 rows")
    assert [part.text for part in browser.all(".colours .keyword")] == ["SELECT", "FROM", "WHERE"]
    next(one for one in browser.all(".names summary") if one.text == "open_t").click()
    browser.fill("sql", "")
    next(one for one in browser.all(".names button") if one.text == "b").click()
    assert browser.all("#sql")[0].get_attribute("value") == "b"


def test_names_that_fit(browser: Browser) -> None:
    """Columns are those of the tables in FROM, also by an alias; without FROM there are tables."""
    browser.sign_in("root")
    browser.await_text("open_t")
    browser.run("CREATE OR REPLACE TABLE other_t AS SELECT 1 AS open_other, 2 AS open_more")

    def choices(before: str, after: str = "") -> list[str]:
        field = browser.fill("sql", before + after)
        field.send_keys(*[Keys.ARROW_LEFT] * len(after), Keys.CONTROL, " ")
        return [item.text.partition("\n")[0] for item in browser.all("#choices li")]

    assert choices("SELECT open") == ["open_t"]
    assert choices("SELECT open", " FROM other_t") == ["open_other", "open_more", "open_t"]
    assert choices("SELECT x.", " FROM public.other_t AS x") == ["open_other", "open_more"]
    assert choices("SELECT 1 FROM open_t; SELECT open", " FROM other_t -- FROM open_t")[:2] == [
        "open_other",
        "open_more",
    ]
    assert choices("SELECT 'FROM other_t' FROM open_t x, o")[:2] == ["open_t", "other_t"]
    assert choices("SELECT x.a FROM open_t x WHERE x.") == ["a", "b"]
    browser.run("DROP TABLE other_t")


def test_several_statements(browser: Browser) -> None:
    """The one at the caret runs, or a selection, or all; the first that fails is named and marked."""
    browser.sign_in("root")
    first, second = "SELECT 'one;' AS x", "SELECT 2 AS y"
    browser.run(f"{first};\n-- a comment;\n{second}")
    assert browser.heads() == ["y"]
    browser.all("#sql")[0].send_keys(Keys.CONTROL, Keys.HOME, Keys.NULL, Keys.CONTROL, Keys.ENTER)
    await_true(lambda: browser.heads() == ["x"])
    browser.all("#sql")[0].send_keys(Keys.CONTROL, "a", Keys.NULL, Keys.CONTROL, Keys.ENTER)
    await_true(lambda: browser.heads() == ["x", "y"])
    assert [head.text for head in browser.all(".one h2")][1] == f"Statement 2 of 2, line 3: {second}"
    browser.fill("sql", "SELECT 1 AS x;\nSELECT a,\n'𝒳', nope FROM open_t;\nSELECT 3 AS z")
    browser.button("Run all").click()
    browser.await_text("Stopped at statement 2 of 3, in line 2.")
    assert browser.heads() == ["x"]
    assert [part.text for part in browser.all(".colours .wrong")] == ["nope"]
    browser.all("#sql")[0].send_keys(" ")
    assert browser.all(".colours .wrong") == []


@pytest.mark.parametrize(
    ("sql", "wrong"),
    [
        ("SELECT '𝒳'\nFROM open_t WHERE WHERE x", "x"),
        ("SELECT a FROM nowhere", "nowhere"),
        ("SELECT 'nofun', nofun(a) FROM open_t", "nofun"),
        ("SELEC 1", "SELEC"),
        ("SELECT 'open", "'open"),
        ("SELECT a +", "+"),
        ("SELECT t.Nope FROM open_t t", "Nope"),
    ],
)
def test_the_place_of_an_error(browser: Browser, sql: str, wrong: str) -> None:
    """What an error means is marked in the text."""
    browser.sign_in("root")
    browser.run(sql)
    assert browser.all("[role=alert]")
    assert "".join(part.text for part in browser.all(".colours .wrong")) == wrong


def test_history(browser: Browser) -> None:
    """Statements that were run are found again, saved and deleted; other users of the browser have their own."""
    browser.sign_in("root")
    for number in range(3):
        browser.run(f"SELECT {number} AS number")
    browser.button("History").click()
    browser.fill("save-name", "My <b>number</b>").send_keys(Keys.ENTER)
    entries = [entry.text for entry in browser.all(".entries .entry")]
    assert len(entries) == 4
    assert entries[0].startswith("My <b>number</b>")
    browser.fill("history-search", "select 1")
    assert len(browser.all(".entries .entry")) == 1
    browser.all(".entries .entry")[0].click()
    assert browser.all("#sql")[0].get_attribute("value") == "SELECT 1 AS number"
    browser.button("History").click()
    browser.button("Delete all that are not saved").click()
    assert len(browser.all(".entries .entry")) == 1
    browser.button("✕").click()
    assert browser.all(".entries .entry") == []
    browser.button("Close").click()
    browser.run("SELECT 7")
    browser.button("Sign out").click()
    browser.sign_in("ann")
    await_true(lambda: bool(browser.all("#history")))
    browser.button("History").click()
    assert browser.all(".entries .entry") == []


def test_upload(browser: Browser, tmp_path: Path) -> None:
    """A file becomes a temporary table, which is listed and can be asked; a bad file is told in words."""
    browser.sign_in("root")
    await_true(lambda: bool(browser.all("#sql")))
    (tmp_path / "<b>cities.csv").write_text("id,city\n1,Bern\n2,Thun\n")
    (tmp_path / "broken.json").write_text('{"id": ')
    picker = browser.driver.find_element(By.ID, "file")
    picker.send_keys(f"{tmp_path / '<b>cities.csv'}\n{tmp_path / 'broken.json'}")
    browser.await_text("<b>cities.csv is the temporary table b_cities: 2 rows, until you sign out.")
    browser.await_text("broken.json: ")
    await_true(lambda: "b_cities temporary" in [one.text for one in browser.all(".names summary")])
    browser.button("Run").click()
    await_true(lambda: browser.heads() == ["id", "city"])
    browser.driver.refresh()
    await_true(lambda: "b_cities temporary" in [one.text for one in browser.all(".names summary")])
    browser.button("Sign out").click()
    browser.sign_in("rob")
    await_true(lambda: bool(browser.all("#sql")))
    assert not browser.says("b_cities")
    assert "Upload files" not in [button.text for button in browser.all("button")]


def test_the_cost_of_a_query(browser: Browser) -> None:
    """After a query with model calls there are rows, calls, tokens and seconds, as on the command line."""
    browser.sign_in("root")
    browser.run("SELECT ai_gen('How dear is {a}?', a) AS x FROM open_t WHERE a <= 2")
    browser.await_text("2 rows, 2 calls, ")
    assert browser.says(" tokens, ")


def test_bars_and_csv(browser: Browser, tmp_path: Path) -> None:
    """A result of labels and numbers is drawn as bars, and its rows are written to a CSV file."""
    browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    browser.sign_in("root")
    browser.run("SELECT * FROM (VALUES ('say \"a\"', 4), ('', -2), (NULL, NULL), ('=1+1', 0)) AS made(label, n)")
    browser.await_text("4 rows")
    assert not browser.driver.execute_script("return 'echarts' in window")
    browser.button("Chart").click()
    await_true(lambda: bool(browser.all(".canvas canvas")))
    (canvas,) = browser.all(".canvas")
    assert (canvas.get_attribute("aria-label") or "").startswith("Chart of kind bar: n by label, 4 points.")
    browser.button("PNG").click()
    picture = tmp_path / "chart.png"
    await_true(lambda: picture.exists() and picture.read_bytes()[:4] == b"\x89PNG")
    browser.button("SVG").click()
    await_true(lambda: (tmp_path / "chart.svg").exists() and "</svg>" in (tmp_path / "chart.svg").read_text())
    assert "say &quot;a&quot;" in (tmp_path / "chart.svg").read_text()
    browser.button("Chart").send_keys(Keys.ARROW_LEFT)
    assert browser.heads() == ["label", "n"]
    assert browser.driver.switch_to.active_element.text == "Table"
    browser.await_text("Download 4 rows:")
    browser.button("CSV").click()
    written = b'label,n\r\n"say ""a""",4\r\n"",-2\r\n,\r\n\'=1+1,0\r\n'
    saved = tmp_path / "result.csv"
    await_true(lambda: saved.exists() and saved.read_bytes() == written)
    browser.button("JSON lines").click()
    await_true(lambda: (tmp_path / "result.jsonl").exists() and bool((tmp_path / "result.jsonl").read_text()))
    lines = (tmp_path / "result.jsonl").read_text().splitlines()
    assert lines[0] == r'{"label": "say \"a\"", "n": 4}'
    assert [json.loads(line)["n"] for line in lines] == [4, -2, None, 0]
    browser.run("CREATE OR REPLACE TABLE made AS SELECT 1 AS x")
    assert not [button for button in browser.all("button") if button.text in {"Chart", "CSV", "JSON lines"}]


def test_a_chart_of_fetched_rows(browser: Browser) -> None:
    """A chart of a part of the rows says so; each kind is drawn, in both colour schemes."""
    browser.sign_in("root")
    browser.run("SELECT a % 5 AS n, b, date '2024-01-01' + CAST(a AS INT) AS day, a FROM open_t")
    browser.button("Chart").click()
    browser.await_text("Only the 1,000 fetched rows are drawn")
    await_true(lambda: bool(browser.all(".canvas canvas")))
    browser.driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    kind = Select(browser.all("select[aria-label='Kind']")[0])
    assert kind.first_selected_option.text == "line"
    for name in ("bar", "scatter", "pie", "histogram"):
        kind.select_by_visible_text(name)
        label = browser.all(".canvas")[0].get_attribute("aria-label") or ""
        assert label.startswith(f"Chart of kind {name}: ")
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_why_an_answer(browser: Browser) -> None:
    """Enter on an answer opens its prompt and the filter's; a row's number opens all; Escape goes back to the cell."""
    browser.sign_in("root")
    browser.run(f"SELECT a, ai_gen('{EVIL} {{a}}', a) AS x FROM open_t WHERE ai_filter('Is {{a}} fine?', a) AND a < 9")
    (first, *_) = browser.all("button.answer")
    first.send_keys(Keys.ENTER)
    browser.await_text("Decided that the row is in the result")
    prompts = [part.text for part in browser.all("dialog pre[aria-label='Prompt']")]
    assert EVIL in prompts[0]
    assert "Answer Yes if this is so" in prompts[1]
    assert [part.text for part in browser.all("dialog pre[aria-label='Answer']")] == [first.text, "Yes"]
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    await_true(lambda: not browser.all("dialog"))
    assert browser.driver.switch_to.active_element == first
    browser.all("button[title='Why is this row here?']")[0].click()
    browser.await_text("Asked for other columns")
    browser.button("Close").click()
    assert browser.driver.execute_script("return window.broken") is None
    browser.run("SELECT count(*) AS n, ai_gen('Of {b}?', b) AS x FROM open_t WHERE a < 3 GROUP BY x")
    assert browser.heads() == ["n", "x"]
    assert not browser.all("button.answer")


def test_label_an_answer(browser: Browser, database: Database) -> None:
    """By keys: a right answer, then a wrong one with a comment, and undo, which brings the first label back."""
    browser.sign_in("root")
    sql = "SELECT a, ai_filter('Is {a} labelled?', a) AS x, ai_score('How {a}?', a) AS s FROM open_t WHERE a < 4"
    browser.run(sql)
    labels = database.session()

    def kept() -> list[tuple[object, ...]]:
        return [tuple(row.values()) for row in rows(labels, "SELECT verdict, label, comment FROM system.labels")]

    first = browser.all("button.answer")[0]
    answer = {"true": "Yes", "false": "No"}[first.text]
    first.send_keys(Keys.ENTER)
    browser.await_text("Is this answer right?")
    browser.driver.switch_to.active_element.send_keys("r")
    browser.await_text("The label is kept.")
    assert kept() == [("right", answer, None)]
    browser.button("Wrong").send_keys(Keys.ENTER)
    other = Select(browser.driver.switch_to.active_element).first_selected_option.text
    assert {answer, other} == {"Yes", "No"}
    (comment,) = browser.all("dialog input")
    comment.send_keys(f"{EVIL} r", Keys.ENTER)
    await_true(lambda: kept() == [("wrong", other, f"{EVIL} r")])
    browser.await_text(f"You: wrong; the right answer is {other} – {EVIL}")
    assert browser.driver.switch_to.active_element.text == "Wrong"
    browser.driver.switch_to.active_element.send_keys("u")
    browser.await_text("The earlier label is back.")
    assert kept() == [("right", answer, None)]
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert browser.driver.switch_to.active_element == first
    assert [
        (cell.get_attribute("aria-label") or "").endswith("labelled right") for cell in browser.all("button.answer")[:2]
    ] == [
        True,
        False,
    ]
    browser.run(sql)
    assert len(browser.all("button.answer .mark.right")) == 1
    browser.all("button.answer")[1].send_keys(Keys.ENTER)
    browser.await_text("Is this answer right?")
    browser.driver.switch_to.active_element.send_keys("w")
    (number, _) = browser.all("dialog input")
    number.send_keys("2.5", Keys.ENTER)
    browser.await_text("the right answer is 2.5")
    browser.button("Undo").click()
    browser.await_text("The label is removed.")
    assert len(kept()) == 1
    assert browser.driver.execute_script("return window.broken") is None


def test_rows_to_label_next(browser: Browser, database: Database) -> None:
    """The panel of a learned filter's answer shows the rows to label next, whose answers can be labelled too."""
    teacher = database.session()
    taught = "SELECT 'text ' || value AS t, value % 2 = 0 AS label FROM generate_series(1, 40)"
    teacher.update(f"CREATE TABLE taught AS {taught}")
    teacher.update("CREATE FILTER even AS ai_filter('Is {t} even?', t) FIT ON taught WITH (features = 'model')")
    browser.sign_in("root")
    browser.run("SELECT t, even(t) AS x FROM (SELECT 'new ' || t AS t FROM taught) AS made")
    browser.all("button.answer")[0].send_keys(Keys.ENTER)
    browser.await_text("Is this answer right?")
    browser.button("Rows to label next").click()
    await_true(lambda: browser.heads() == ["t", "answer"])
    await_true(lambda: len(browser.all("button.answer")) == 20)
    assert browser.driver.execute_script("return window.broken") is None


def test_undo_to_a_label_that_is_no_option(browser: Browser, database: Database) -> None:
    """SQL gives a label that the call's options lack; undo brings it back."""
    browser.sign_in("root")
    browser.run("SELECT a, ai_score('How undone is {a}?', a) AS s FROM open_t WHERE a < 2")
    browser.all("button.answer")[0].send_keys(Keys.ENTER)
    browser.await_text("Is this answer right?")
    browser.driver.switch_to.active_element.send_keys("r")
    browser.await_text("The label is kept.")
    labels = database.session()
    ours = "FROM system.labels WHERE task LIKE '%undone%' AND user = 'root'"
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    root = database.session(Principal("root", "admin"))
    columns = "function, task, fields, answer"
    root.update(f"INSERT INTO system.labels ({columns}, label) SELECT {columns}, '99' {ours}")
    browser.all("button.answer")[0].send_keys(Keys.ENTER)
    browser.await_text("the right answer is 99")
    browser.driver.switch_to.active_element.send_keys("r")
    browser.await_text("You: right")
    browser.button("Undo").click()
    browser.await_text("The earlier label is back.")
    assert [tuple(row.values()) for row in rows(labels, f"SELECT verdict, label {ours}")] == [("wrong", "99")]


def test_a_readonly_user_labels_nothing(browser: Browser) -> None:
    """Instead of the buttons, the panel says why; the keys do nothing."""
    browser.sign_in("rob")
    browser.run("SELECT a, ai_filter('Is {a} read?', a) AS x FROM open_t WHERE a < 2")
    browser.all("button.answer")[0].send_keys(Keys.ENTER)
    browser.await_text("requires the role user or admin")
    browser.driver.switch_to.active_element.send_keys("r")
    assert not {"Right", "Wrong", "Undo"} & {button.text for button in browser.all("dialog button")}
    assert not browser.says("R, W and U")


def test_many_rows_and_columns(browser: Browser) -> None:
    """The document has only the cells that are near the visible ones, wherever the result is scrolled to."""
    browser.sign_in("root")
    columns = ", ".join(f"a * {number} AS c{number}" for number in range(200))
    browser.run(f"SELECT {columns} FROM open_t")
    browser.await_text("The first 1,000 rows")
    assert len(browser.heads()) == 200
    for top, left, row in ((0, 0, 1), (0.5, 0.5, 500), (1, 1, 1000)):
        browser.driver.execute_script(
            "const grid = document.querySelector('.grid');"
            "grid.scrollTop = arguments[0] * grid.scrollHeight; grid.scrollLeft = arguments[1] * grid.scrollWidth",
            *(top, left),
        )
        browser.await_row(row)
        assert len(browser.driver.find_elements(By.CSS_SELECTOR, ".grid td")) < 3_000
    assert browser.column("c199")[-1] == "199000"
    assert browser.column("c0") == []


def test_rows_are_sorted(browser: Browser) -> None:
    """A click on a name sorts the fetched rows up, then down, then not; numbers are no texts; NULL is last."""
    browser.sign_in("root")
    browser.run("SELECT * FROM (VALUES (10, 'b'), (9, 'a'), (NULL, 'c'), (9007199254740993, NULL)) AS made(n, t)")
    browser.await_text("4 rows")
    for name, order in (("n", ["9", "10", "9007199254740993", "NULL"]), ("n", ["9007199254740993", "10", "9", "NULL"])):
        browser.sort(name)
        assert browser.column("n") == order
    browser.await_text("Sorted by n, descending.")
    browser.sort("n")
    assert browser.column("n") == ["10", "9", "NULL", "9007199254740993"]
    browser.sort("t")
    assert browser.column("t") == ["a", "b", "c", "NULL"]
    browser.run("SELECT a FROM open_t")
    browser.sort("a")
    browser.await_text("only the fetched rows: ORDER BY sorts all")


def test_the_profile_of_a_column(browser: Browser) -> None:
    """The profile counts NULLs and distinct values, and shows the most frequent ones and a histogram; no query runs."""
    browser.sign_in("root")
    browser.run("SELECT CASE WHEN a % 4 = 0 THEN NULL ELSE a % 3 END AS n, b FROM open_t WHERE a <= 12")
    browser.await_text("12 rows")
    browser.all(".grid th .look")[0].click()
    (dialog,) = browser.all("dialog")
    figures = [part.text for part in browser.all("dialog dl div")]
    assert figures[1:] == ["Rows\n12", "NULL\n3 (25.0 %)", "Distinct\n3", "Least\n0", "Greatest\n2", "Mean\n1"]
    assert [cell.text for cell in browser.all("dialog tbody tr:first-child td")][1] == "3"
    assert len(browser.all(".histogram .bar")) == 16
    assert "Of all 12 rows." in dialog.text
    browser.button("Close").click()


def test_a_plan_as_a_graph(browser: Browser) -> None:
    """EXPLAIN is a graph: what costs most says so, the keyboard goes along its lines, and a part has details."""
    browser.sign_in("root")
    browser.fill("sql", "SELECT ai_gen('Of {a}?', a) AS x FROM open_t WHERE ai_filter('Is {b} fine?', b) ORDER BY a")
    browser.button("Explain").click()
    browser.await_text("Plan as text")
    nodes = {node.text.splitlines()[0]: node for node in browser.all(".node")}
    assert next(iter(nodes)) == "stage result"
    (dear,) = browser.all(".node.dear")
    assert "▲" in dear.text
    assert "ai_gen" in dear.text
    assert not browser.says("ai_gen: fields")
    nodes["stage result"].send_keys(Keys.ARROW_DOWN)
    assert browser.driver.switch_to.active_element == dear
    dear.send_keys(Keys.ENTER)
    browser.await_text("each begins with the instruction")
    assert browser.driver.switch_to.active_element.get_attribute("aria-expanded") == "true"
    browser.button("Close the details").click()
    assert not browser.says("each begins with the instruction")
    browser.all("details.plan summary")[0].click()
    assert browser.says("ai_gen: fields")
    browser.run("EXPLAIN SELECT a FROM open_t")
    browser.await_text("TableScan: open_t")
    browser.run("SELECT '{}' AS plan")
    assert browser.column("plan") == ["{}"]


def test_rows_appear_as_they_come(browser: Browser, database: Database) -> None:
    """The first rows of a slow query are shown while others are asked for, and the status says so."""
    browser.sign_in("root")
    browser.fill("sql", "SELECT a, ai_gen('Why {a}?', a) AS x FROM open_t").send_keys(Keys.CONTROL, Keys.ENTER)
    browser.await_text("Rows arrive:")
    assert browser.column("a")[0] == "1"
    assert not browser.button("Run").is_enabled()
    browser.button("Cancel").click()
    browser.await_text("Cancelled.")
    await_true(lambda: not database.queries.running())


def test_a_slow_query(browser: Browser, database: Database) -> None:
    """A query with model calls tells how far it is, and in the list; its detail has calls and plan; it is cancelled."""
    browser.sign_in("root")
    browser.fill("sql", "SELECT a, ai_gen('What of {a}?', a) AS answer FROM open_t").send_keys(Keys.CONTROL, Keys.ENTER)
    browser.await_text("of 2,000 model calls")
    assert float(browser.all("progress")[0].get_attribute("max") or 0) == 2000
    browser.go("Queries")
    browser.await_text("/ 2,000")
    assert [cell.text for cell in browser.all("td.status.running")] == ["running"]
    link = next(link for link in browser.all("td.sql a") if "What of" in link.text)
    link.click()
    browser.await_text("AI calls")
    shown = browser.all(".calls")[0].text
    await_true(lambda: browser.all(".calls")[0].text != shown)
    browser.button("Show plan").click()
    browser.await_text("In total, as it ran")
    (node,) = browser.all(".node.asks")
    assert "rows: 2,000 in" in node.text
    assert " real" in node.text
    browser.button("Cancel").click()
    browser.await_text("cancelled")
    await_true(lambda: not database.queries.running())
    browser.go("SQL")
    browser.await_text("Failed.")
    assert "cancelled" in browser.all("[role=alert]")[0].text


def test_cancel_and_leave(browser: Browser, database: Database) -> None:
    """The box's own button stops its statement, and so does leaving the page."""
    browser.sign_in("root")

    def cancel() -> None:
        browser.button("Cancel").click()

    ways: tuple[Callable[[], None], ...] = (cancel, browser.driver.refresh)
    for leave in ways:
        browser.fill("sql", "SELECT ai_gen('And of {a}?', a) AS x FROM open_t").send_keys(Keys.CONTROL, Keys.ENTER)
        browser.await_text("of 2,000 model calls")
        leave()
        await_true(lambda: not database.queries.running())


def test_tables_and_load(browser: Browser) -> None:
    """Tables open to their columns, and into the SQL box; admins see the load, and others have no link to it."""
    browser.sign_in("root")
    browser.await_text("root (admin)")
    browser.go("Tables")
    browser.await_text("shut_t")
    next(one for one in browser.all("summary") if "open_t" in one.text).click()
    cells = [cell.text for cell in browser.all("details td")]
    assert cells[:2] == ["a", "int64"]
    browser.all("button[aria-label='Show rows of open_t']")[0].click()
    await_true(lambda: bool(browser.all("#sql")))
    assert browser.all("#sql")[0].get_attribute("value") == 'SELECT * FROM "open_t" LIMIT 100'
    browser.go("Load")
    browser.await_text("Prompts in flight")
    browser.await_text("fake (demo)")
    browser.button("Sign out").click()
    browser.sign_in("ann")
    browser.await_text("ann (user)")
    browser.driver.get(f"{browser.page}/#/load")
    browser.driver.refresh()
    await_true(lambda: bool(browser.all("#sql")))
    browser.go("Tables")
    browser.await_text("open_t")
    assert not browser.says("shut_t")


def test_a_narrow_window(browser: Browser) -> None:
    """At 400 pixels no page scrolls sideways: a wide result scrolls within itself."""
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.sign_in("root")
        columns = ", ".join(f"'some text {number}' AS c{number}" for number in range(30))
        browser.run(f"SELECT {columns}, repeat('x', 300) AS long FROM open_t")
        browser.await_text("The first 1,000 rows")
        browser.fill("sql", "SELECT count(*) AS number_of_rows FROM op")
        await_true(lambda: bool(browser.all("#choices li")))
        assert browser.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        for page in ("SQL", "Queries", "Tables", "Load"):
            browser.go(page)
            await_true(lambda: bool(browser.all("main h1")))
            script = "return document.documentElement.scrollWidth <= innerWidth"
            assert browser.driver.execute_script(script), page
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_nothing_is_markup(browser: Browser, database: Database) -> None:
    """Rows, names, statements and errors that look like markup are shown as they are, on every page."""
    admin = database.session()
    name = '"' + EVIL + '"'
    admin.update(f"CREATE OR REPLACE TABLE {name} AS SELECT 1 AS {name}, '{EVIL}' AS v, ['{EVIL}'] AS l")
    admin.update(f"CREATE OR REPLACE PROMPT evil AS '{EVIL}'")
    browser.sign_in("root")
    browser.run(f"SELECT *, '{EVIL}' || repeat('x', 200) AS long FROM {name}")
    browser.await_text("1 row,")
    assert EVIL in [cell.text for cell in browser.all(".grid td")]
    assert EVIL in browser.heads()
    browser.all("button.cell")[0].click()
    assert EVIL in browser.all("dialog pre")[0].text
    browser.button("Close").click()
    browser.run(f"SELECT {name} FROM open_t")
    assert EVIL in browser.all("[role=alert]")[0].text
    browser.fill("sql", f"SELECT ai_gen('{EVIL} {{v}}', v) FROM {name}")
    browser.button("Explain").click()
    browser.await_text("In total, as predicted")
    assert any(EVIL in text.text for text in browser.all("pre"))
    browser.go("Tables")
    browser.await_text(EVIL)
    browser.go("Load")
    browser.await_text("Prompts in flight")
    browser.go("Queries")
    await_true(lambda: any(EVIL in link.text for link in browser.all("td.sql a")))
    next(link for link in browser.all("td.sql a") if EVIL in link.text).click()
    await_true(lambda: any(EVIL in text.text for text in browser.all("pre.text")))
    assert browser.driver.execute_script("return window.broken") is None
    assert browser.all("main script, main img") == []
    admin.update(f"DROP TABLE {name}")
