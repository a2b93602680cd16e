-- codecompanion.nvim as the client of agh, used as a person would: chat buffer, keys, menus.
--
-- nvim --clean --headless --cmd 'set rtp+=…' -c 'luafile SETTINGS' -c 'luafile neovim_chat.lua'
--
-- SETTINGS is what `agh acp --print-config neovim` prints. Without the environment variable SESSION it uses a new
-- session and waits to be killed in the middle of a turn; with it, it opens that session. It appends what it sees
-- to the file REPORT.

local workspace, report_path = vim.env.WORKSPACE, vim.env.REPORT
local LIMIT = 60000 -- milliseconds

local function report(step, facts)
  local line = vim.json.encode(vim.tbl_extend("force", { step = step }, facts or {}))
  vim.fn.writefile({ line }, report_path, "a")
end

local function wait(what, condition)
  if not vim.wait(LIMIT, condition, 5) then
    error("waited in vain: " .. what)
  end
end

local chat, menu

local function buffer_text()
  return table.concat(vim.api.nvim_buf_get_lines(chat.bufnr, 0, -1, false), "\n")
end

local function shows(text)
  return function()
    return buffer_text():find(text, 1, true) ~= nil
  end
end

local function press(keys)
  vim.api.nvim_set_current_win(vim.fn.bufwinid(chat.bufnr))
  vim.api.nvim_feedkeys(vim.api.nvim_replace_termcodes(keys, true, false, true), "mx", false)
end

local function is_ready()
  return chat.current_request == nil and vim.bo[chat.bufnr].modifiable
end

--- Type a prompt at the end of the chat buffer and send it.
local function send(text)
  wait("input", is_ready)
  vim.api.nvim_buf_set_lines(chat.bufnr, -1, -1, false, vim.split(text, "\n"))
  press("<CR>")
end

--- Send a prompt; return what the buffer shows after it once the turn has ended.
local function prompt(text, answer)
  local before = #buffer_text()
  send(text)
  if answer then
    wait("a request for permission", function()
      return buffer_text():find("Please select an option", before, true) ~= nil
    end)
    press(answer)
  end
  wait("the end of " .. text, is_ready)
  return buffer_text():sub(before + 1)
end

--- Run a slash command of codecompanion whose menus get these answers.
local function command(name, choose)
  menu = choose
  local class = require("codecompanion.interactions.chat.slash_commands.builtin." .. name)
  if class.enabled then
    assert(class.enabled(chat))
  end
  class.new({ Chat = chat, config = {}, context = {} }):execute()
end

vim.ui.select = function(items, options, done)
  local index = menu(items, options)
  done(items[index], index)
end

local function listed()
  return vim.tbl_map(function(session)
    return session.sessionId
  end, chat.acp_connection:session_list())
end

local function open_chat()
  vim.cmd.cd(workspace)
  vim.cmd("CodeCompanionChat")
  chat = require("codecompanion").last_chat()
  wait("the session", function()
    return chat.acp_connection and chat.acp_connection.session_id
  end)
  local info = chat.acp_connection._agent_info
  report("initialize", {
    version = info.protocolVersion,
    name = info.agentInfo.name,
    auth = #info.authMethods,
    neovim = tostring(vim.version()),
  })
end

local function first()
  open_chat()
  local connection = chat.acp_connection
  report("new", { id = connection.session_id, models = connection:get_models() })
  report("prompt", { text = prompt("hello from Neovim") })
  report("tools", { text = prompt("/tool Search kind=search nothing\n/say found") })
  report("permission", { text = prompt("/ask Write the file", "g2") })
  report("refusal", { text = prompt("/ask Write it again", "g3") })
  local file = workspace .. "/notes.txt"
  report("read", { text = prompt("/read " .. file) })
  local buffer = vim.fn.bufadd(file)
  vim.bo[buffer].buflisted = true
  vim.fn.bufload(buffer)
  report("write", {
    text = prompt("/change " .. file .. " by the agent", "g2"),
    buffer = vim.api.nvim_buf_get_lines(buffer, 0, -1, false),
  })
  command("acp_session_options", function(items)
    return vim.fn.match(items, "Large") + 1
  end)
  report("settings", { text = prompt("/settings"), models = connection:get_models() })
  prompt("/title Named by the agent")
  report("title", { title = chat.title })
  send("/stream 40 0.05") -- codecompanion sends what was stopped once more, with the next prompt
  wait("a chunk", shows("chunk 2 "))
  press("q")
  wait("the end", is_ready)
  report("cancel", { text = prompt("after the cancel") })
  report("list", { listed = listed() })
  send("/stream 60 0.05 12")
  wait("more chunks", shows("chunk 4 ...."))
  report("streaming")
  vim.wait(LIMIT)
end

local function again()
  open_chat()
  report("list", { listed = listed() })
  command("resume", function(items)
    report("menu", { items = items })
    return vim.fn.index(listed(), vim.env.SESSION) + 1
  end)
  report("resume", { id = chat.acp_connection.session_id, text = buffer_text(), title = chat.title })
  wait("the test", function()
    return vim.fn.filereadable(vim.fs.dirname(report_path) .. "/go-on") == 1
  end)
  report("recall", { text = prompt("what did i say?") })
  vim.cmd("qa!")
end

local function main()
  local is_done, message = xpcall(vim.env.SESSION and again or first, debug.traceback)
  if not is_done then
    io.stderr:write(message, "\n", vim.fn.execute("messages"), "\n", chat and buffer_text() or "", "\n")
    vim.cmd("cquit 1")
  end
end

-- In a coroutine: with a LuaJIT that is compatible with Lua 5.2, as Debian's, codecompanion.nvim takes the main
-- thread for one, and cannot wait for answers there.
require("codecompanion.utils.async").sync(main)()
