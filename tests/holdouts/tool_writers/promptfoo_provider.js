// A model of promptfoo's that replies as sums.py says; REPLIES is put in by write_tool_files.py.
const REPLIES = {};
const seen = {};
module.exports = class {
  constructor(options) {
    this.model = options.config.model;
  }
  id() {
    return `file:${this.model}`;
  }
  async callApi(prompt) {
    const number = prompt.split(" ")[2];
    const key = `${this.model} ${number}`;
    seen[key] = (seen[key] || 0) + 1;
    const said = REPLIES[this.model][number];
    const output = said[Math.min(seen[key], said.length) - 1];
    return output === null ? { error: "the tool broke" } : { output };
  }
};
