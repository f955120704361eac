// Shows consecutive code blocks in Python and Rust as tabs, and remembers the choice of the reader.
// A block belongs to a language by its own one (```python, ```rust) or by a mark (```console,py, ```toml,rs).
// Without this script, the blocks are shown below each other.
"use strict";

(() => {
    const LANGUAGES = [
        {name: "Python", classes: ["language-python", "py"]},
        {name: "Rust", classes: ["language-rust", "rs"]},
    ];
    const KEY = "kopf-language";

    const languageOf = (element) => {
        const code = element?.tagName === "PRE" ? element.querySelector("code") : null;
        return code && LANGUAGES.find((language) => language.classes.some((name) => code.classList.contains(name)));
    };

    const remembered = () => {
        try {
            return localStorage.getItem(KEY);
        } catch {
            return null; // storage is disabled: the choice lasts for the page
        }
    };

    const groups = [];

    const select = (name) => {
        for (const {tabs, blocks} of groups) {
            if (!blocks.has(name)) continue;
            for (const [language, tab] of tabs) {
                tab.setAttribute("aria-selected", String(language === name));
                tab.tabIndex = language === name ? 0 : -1;
                blocks.get(language).hidden = language !== name;
            }
        }
    };

    const choose = (name, tab) => {
        const before = tab.getBoundingClientRect().top;
        select(name);
        // Blocks above have other heights now: keep the clicked tab in its place.
        window.scrollBy(0, tab.getBoundingClientRect().top - before);
        try {
            localStorage.setItem(KEY, name);
        } catch {
            // see above
        }
    };

    const group = (first) => {
        const blocks = new Map();
        for (let block = first; block; block = block.nextElementSibling) {
            const language = languageOf(block);
            if (!language || blocks.has(language.name)) break;
            blocks.set(language.name, block);
        }
        if (blocks.size < 2) return;
        const box = document.createElement("div");
        box.className = "languages";
        const list = document.createElement("div");
        list.setAttribute("role", "tablist");
        box.append(list);
        first.before(box);
        const tabs = new Map();
        for (const {name} of LANGUAGES.filter((language) => blocks.has(language.name))) {
            const tab = document.createElement("button");
            tab.type = "button";
            tab.textContent = name;
            tab.setAttribute("role", "tab");
            tab.addEventListener("click", () => choose(name, tab));
            tab.addEventListener("keydown", (event) => {
                if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
                const other = [...tabs.keys()].find((language) => language !== name);
                choose(other, tabs.get(other));
                tabs.get(other).focus();
            });
            list.append(tab);
            tabs.set(name, tab);
            box.append(blocks.get(name));
        }
        groups.push({tabs, blocks});
    };

    for (const block of document.querySelectorAll("main pre")) {
        if (languageOf(block) && !block.closest(".languages")) group(block);
    }
    select(remembered() === "Rust" ? "Rust" : "Python");
})();
